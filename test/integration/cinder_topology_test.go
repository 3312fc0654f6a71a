//go:build integration

package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// manyZones are so many that a listing is long; one more may be added.
func manyZones(more ...string) []string {
	var names []string
	for i := range 3000 {
		names = append(names, fmt.Sprintf("zone-%04d-of-a-very-large-cloud", i))
	}
	return append(names, more...)
}

// TestCinderTopology: volumes follow pods into zones when every available compute zone is an available volume zone, and there is
// one at least (faults 61, 63, 64). Each answer differs from the one before, so that it is seen to be a new one.
func TestCinderTopology(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.awaitAvailable()
	e.must(e.hasTopology("true"))
	for _, c := range []struct {
		name            string
		compute, volume []string
		want            string
	}{
		{"a compute zone without volumes", []string{"az1", "az2"}, []string{"az1"}, "false"},
		{"equal", []string{"az1", "az2"}, []string{"az2", "az1"}, "true"},
		{"no zones at all", nil, nil, "false"},
		{"one more for volumes", []string{"az1"}, []string{"az1", "az2"}, "true"},
		{"no compute zones", nil, []string{"az1"}, "false"},
		{"a compute zone out of order", []string{"az1", "!az2"}, []string{"az1"}, "true"},
		{"a volume zone out of order", []string{"az1", "az2"}, []string{"az1", "!az2"}, "false"},
		{"listed twice", []string{"az1", "az1"}, []string{"az1"}, "true"},
		{"all compute zones out of order", []string{"!az1"}, []string{"az1"}, "false"},
		{"listed twice, once in order", []string{"az1", "!az1"}, []string{"!az1", "az1"}, "true"},
		{"no volume zones", []string{"az1"}, nil, "false"},
		{"very many", manyZones(), manyZones("one-more"), "true"},
		{"very many and one", manyZones("one-more"), manyZones(), "false"},
	} {
		e.sub(c.name, func(*testing.T) {
			before := e.workloads()
			e.setZones(simulator.Compute, c.compute...)
			e.setZones(simulator.Volume, c.volume...)
			e.lookAgain()
			e.within(prompt, func() error { return e.hasTopology(c.want) })
			e.eventually(prompt, func() error {
				for name, after := range e.workloads() { // both, or nodes and controller would disagree (fault 67)
					if err := rolledOnce(before[name], after); err != nil {
						return err
					}
				}
				return nil
			})
			e.awaitAvailable() // a conflict with the Deployment's status may degrade for a moment
		})
	}
}

// TestCinderTopologyOverride: the administrator's word counts, whatever the zones say and whether or not the cloud answers
// (fault 65); without it the zones count again.
func TestCinderTopologyOverride(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Before: func(e *env) {
		e.putConfigMap(openshiftConfig, cinderUserConfig, map[string]string{topologyKey: "false"})
	}})
	e.awaitAvailable()
	e.must(e.hasTopology("false"))
	e.apart()
	e.putConfigMap(openshiftConfig, cinderUserConfig, map[string]string{topologyKey: "true"})
	e.within(prompt, func() error { return e.hasTopology("true") })
	e.lookAgain()
	e.rest()
	e.must(e.hasTopology("true"))
	e.putConfigMap(openshiftConfig, cinderUserConfig, map[string]string{})
	e.within(prompt, func() error { return e.hasTopology("false") })
}

// TestCinderOverrideNeedsNoCloud: with the administrator's word the driver is installed, and not degraded, though no cloud has
// ever answered.
func TestCinderOverrideNeedsNoCloud(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{
		Args:   []string{"--cloud-grace-period=1s"},
		Faults: []simulator.Fault{{Mode: simulator.Unreachable}},
		Before: func(e *env) {
			e.putConfigMap(openshiftConfig, cinderUserConfig, map[string]string{topologyKey: "false"})
		},
	})
	e.awaitAvailable()
	e.must(e.hasTopology("false"))
	e.must(e.hasCondition(cinderReachable, opv1.ConditionFalse, unreachableReason))
	e.throughout(3*time.Second, e.notDegraded)
}

// TestCinderZonesAreLookedAtAgain: changed zones are noticed when credentials or configuration change, and soon after a failure.
func TestCinderZonesAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*env){
		"credentials Secret": func(e *env) { e.lookAgain() },
		"operator's file": func(e *env) {
			e.must(writeFile(e.cloudsPath, append(e.cloudsYAML(simulator.Clouds{}), "# new\n"...)))
		},
		"configuration": func(e *env) {
			e.putConfigMap(openshiftConfig, cinderUserConfig, map[string]string{"config": "[BlockStorage]\nrescan-on-resize = true\n"})
		},
		"restart": func(e *env) { e.restartOperator() },
		"after a failure": func(e *env) {
			end := e.fault(statusFault(simulator.Volume, http.StatusServiceUnavailable))
			e.lookAgain()
			e.eventually(soon, func() error { return e.hasCondition(cinderReachable, opv1.ConditionFalse, unreachableReason) })
			e.must(e.hasTopology("true"))
			end()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newCinder(t, options{})
			e.awaitAvailable()
			e.rest()
			e.apart()
			e.throughout(1500*time.Millisecond, func() error { return e.hasTopology("true") }) // a poll alone asks nothing
			change(e)
			e.within(prompt, func() error { return e.hasTopology("false") })
			e.awaitAvailable()
		})
	}
}
