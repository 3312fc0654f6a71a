//go:build integration

package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// manyZones returns so many zones that the response is long.
func manyZones(more ...string) []string {
	var names []string
	for i := range 900 {
		names = append(names, fmt.Sprintf("zone-%04d-of-a-very-large-cloud", i))
	}
	return append(names, more...)
}

// TestCinderTopologyFollowsZones checks that controllers and nodes roll out together, once, when
// zones are added or removed, but not when zones go into maintenance or the cloud lists none.
func TestCinderTopologyFollowsZones(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.awaitAvailable()
	e.must(e.hasTopology("true"))
	for _, c := range []struct {
		name            string
		compute, volume []string
		changes         bool
	}{
		{"a compute zone without volumes", []string{"az1", "az2"}, []string{"az1"}, true},
		{"that zone in maintenance", []string{"az1", "!az2"}, []string{"az1"}, false},
		{"all compute zones in maintenance", []string{"!az1", "!az2"}, []string{"az1"}, false},
		{"its volume zone not in service yet", []string{"az1", "az2"}, []string{"az1", "!az2"}, false},
		{"equal", []string{"az1", "az2"}, []string{"az2", "az1"}, true},
		{"a volume zone in maintenance", []string{"az1", "az2"}, []string{"az1", "!az2"}, false},
		{"all volume zones in maintenance", []string{"az1", "az2"}, []string{"!az1", "!az2"}, false},
		{"a compute zone in maintenance", []string{"az1", "!az2"}, []string{"az1", "az2"}, false},
		{"everything in maintenance", []string{"!az1", "!az2"}, []string{"!az1", "!az2"}, false},
		{"no zones at all", nil, nil, false},
		{"no volume zones", []string{"az1"}, nil, false},
		{"no compute zones", nil, []string{"az1"}, false},
		{"one more for volumes", []string{"az1"}, []string{"az1", "az2"}, false},
		{"listed twice, once in order", []string{"az1", "!az1"}, []string{"!az1", "az1"}, false},
		{"very many and one", manyZones("one-more"), manyZones(), true},
		{"very many", manyZones(), manyZones("one-more"), true},
		{"one that no label can hold", []string{"az1", "Zone 2"}, []string{"az1", "Zone 2"}, true},
	} {
		e.sub(c.name, func(*testing.T) {
			before, topology := e.workloads(), e.topology()
			e.setZones(simulator.Compute, c.compute...)
			e.setZones(simulator.Volume, c.volume...)
			if !c.changes {
				e.awaitZoneProbes(5)
				e.awaitNoWrites()
				e.must(e.hasTopology(topology))
				e.mustHaveWorkloads(before)
				return
			}
			e.triggerZoneProbe()
			e.within(prompt, func() error {
				return e.hasTopology(map[string]string{"true": "false", "false": "true"}[topology])
			})
			e.eventually(prompt, func() error {
				for name, after := range e.workloads() { // controllers and nodes must agree
					if err := rolledOnce(before[name], after); err != nil {
						return err
					}
				}
				return nil
			})
			e.awaitAvailable() // a conflict may degrade the driver for a moment
		})
	}
	e.eventually(soon, func() error { return e.hasTopologyEvents(5) })
	e.must(e.hasCondition(cinderProgressing, opv1.ConditionFalse, "AsExpected",
		`Topology is off: node labels cannot hold the names of compute zones "Zone 2"`))
}

// hasTopologyEvents returns nil if there are that many events about topology, and one of them
// explains the first change of TestCinderTopologyFollowsZones.
func (e *cinderEnv) hasTopologyEvents(want int) error {
	const message = "enable_topology of cloud-conf changes from true to false because of compute " +
		"zones nova -> az1, az2; volume zones nova -> az1"
	events, err := e.events(e.ctx(), "CinderTopologyChanged")
	if err == nil && (len(events) != want || !slices.ContainsFunc(events,
		func(event corev1.Event) bool { return event.Message == message })) {
		err = fmt.Errorf("%d events about topology, want %d, and one with the message %q",
			len(events), want, message)
	}
	return err
}

// awaitZoneProbes makes the operator probe the zones at least n times.
func (e *cinderEnv) awaitZoneProbes(n int) {
	e.t.Helper()
	for range n {
		before := e.cloud.Counters().Requests[simulator.Compute]
		e.triggerZoneProbe()
		e.eventually(soon, func() error {
			if e.cloud.Counters().Requests[simulator.Compute] == before {
				return errors.New("the operator has not probed the zones again")
			}
			return nil
		})
	}
}
