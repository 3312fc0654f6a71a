//go:build integration

package integration

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
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
	e.eventually(soon, func() error { return e.hasTopologyEvents(4) })
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

func TestCinderKeepsTopologyWhenRestartedDuringMaintenance(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	before := e.awaitIdle()
	e.stopOperator()
	for _, zones := range [][2]string{{"nova", "!nova"}, {"!nova", "nova"}, {"!nova", "!nova"}} {
		e.setZones(simulator.Compute, zones[0])
		e.setZones(simulator.Volume, zones[1])
		e.startOperator()
		e.awaitZoneProbes(5)
		e.awaitNoWrites()
		e.must(e.stillHas(before))
		e.must(e.available())
		e.stopOperator()
	}
}

// TestCinderTopologyOfUserConfigWins checks that the zones decide again without the administrator's
// setting.
func TestCinderTopologyOfUserConfigWins(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Before: func(e *env) {
		e.putUserConfig(map[string]string{topologyKey: "false"})
	}})
	e.awaitAvailable()
	e.must(e.hasTopology("false"))
	e.setMismatchedZones()
	e.putUserConfig(map[string]string{topologyKey: "true"})
	e.within(prompt, func() error { return e.hasTopology("true") })
	e.triggerZoneProbe()
	e.awaitNoWrites()
	e.must(e.hasTopology("true"))
	e.putUserConfig(map[string]string{})
	e.within(prompt, func() error { return e.hasTopology("false") })
}

// TestCinderReadsInstalledTopology checks that enable_topology of the installer's ConfigMap is
// used, as in earlier releases, until the driver has its own ConfigMap, and that a condition says
// that it is ignored then.
func TestCinderReadsInstalledTopology(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Before: func(e *env) {
		e.putConfigMap(openshiftConfig, cloudProviderConfig,
			map[string]string{"config": "", topologyKey: "false"})
		e.setCloudConfigKey("config")
	}})
	e.awaitAvailable()
	e.must(e.hasTopology("false"))
	e.putUserConfig(map[string]string{"cloud.conf": "[BlockStorage]\n"})
	e.within(prompt, func() error { return e.hasTopology("true") })
	e.eventually(soon, func() error {
		return e.hasCondition(cinderConfigValid, opv1.ConditionFalse, "PartlyIgnored")
	})
	for _, text := range []string{
		"key cloud.conf of ConfigMap " + openshiftConfig + "/" + cinderUserConfig + " is ignored",
		"key enable_topology of ConfigMap " + openshiftConfig + "/" + cloudProviderConfig + " is ignored",
	} {
		if message := e.message(cinderConfigValid); !strings.Contains(message, text) {
			t.Errorf("the message of %s is %q, want it to contain %q", cinderConfigValid, message, text)
		}
	}
	e.awaitAvailable()
	e.deleteUserConfig()
	e.within(prompt, func() error { return e.hasTopology("false") })
	e.eventually(soon, func() error {
		return e.hasCondition(cinderConfigValid, opv1.ConditionTrue, "AsExpected")
	})
}

func TestCinderStartsWithoutCloudIfTopologyIsSet(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{
		Args:   []string{"--cloud-grace-period=1s"},
		Faults: []simulator.Fault{{Mode: simulator.Unreachable}},
		Before: func(e *env) {
			e.putUserConfig(map[string]string{topologyKey: "false"})
		},
	})
	e.awaitAvailable()
	e.must(e.hasTopology("false"))
	e.must(e.hasCondition(cinderReachable, opv1.ConditionFalse, unreachableReason))
	e.awaitNoWritesFor(3 * time.Second)
	e.must(e.notDegraded())
}

func TestCinderProbesZonesAgainAfterChange(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.awaitAvailable()
	for name, change := range map[string]func(){
		"credentials Secret": func() { e.triggerZoneProbe() },
		"operator's file": func() {
			e.must(paths.WriteFile(e.files.OpenStackClouds(e.subject.Name),
				append(e.cloud.CloudsYAML(simulator.Clouds{}), "# new\n"...)))
		},
		"configuration": func() {
			e.putUserConfig(map[string]string{"config": "[BlockStorage]\nrescan-on-resize = true\n"})
		},
		"restart": func() { e.restartOperator() },
		"after a failure": func() {
			end := e.fault(statusFault(simulator.Volume, http.StatusServiceUnavailable))
			e.triggerZoneProbe()
			e.awaitReachable(opv1.ConditionFalse)
			e.must(e.hasTopology("true"))
			end()
		},
	} {
		e.sub(name, func(*testing.T) {
			e.awaitNoWrites()
			e.setMismatchedZones()
			e.expectNoWritesFor(1500 * time.Millisecond) // a poll alone does not probe
			e.must(e.hasTopology("true"))
			change()
			e.within(prompt, func() error { return e.hasTopology("false") })
			e.awaitAvailable()
			e.setZones(simulator.Compute, "nova")
			e.triggerZoneProbe()
			e.within(prompt, func() error { return e.hasTopology("true") })
			e.awaitAvailable()
		})
	}
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
