//go:build integration

package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// followsZones checks that controllers and nodes roll out together, once, when zones are added or
// removed, but not when zones go into maintenance or the cloud lists none.
func (e *cinderEnv) followsZones() {
	e.awaitAvailable()
	e.must(e.hasTopology("true"))
	for _, c := range []struct {
		name            string
		compute, volume []string
		changes         bool
	}{
		{"a compute zone without volumes", []string{"az1", "az2"}, []string{"az1"}, true},
		{"that zone in maintenance", []string{"az1", "!az2"}, []string{"az1"}, false},
		{"no zones at all", nil, nil, false},
		{"equal", []string{"az1", "az2"}, []string{"az2", "az1"}, true},
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
			e.eventually(prompt, func() error {
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
	e.eventually(soon, func() error { return e.hasTopologyEvents(2) })
}

// hasTopologyEvents returns nil if there are that many events about topology, and one of them
// explains the first change of followsZones.
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
