//go:build integration && long

package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// cinderOutages returns outages of each kind, for a cloud with TLS.
func cinderOutages() []outageCase {
	return append(commonOutages(),
		returnsStatus("Nova", simulator.Compute, http.StatusInternalServerError),
		returnsStatus("Cinder", simulator.Volume, http.StatusBadGateway),
		closesConnections("Cinder resets requests", simulator.Reset, simulator.Volume),
		returnsGarbage("Cinder", simulator.Volume),
		closesConnections("Nova breaks off its responses", simulator.Truncated, simulator.Compute))
}

// TestCinderOutageKeepsDriver starts with topology off, which a failed probe must not change.
func TestCinderOutageKeepsDriver(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Cloud: simulator.Config{
		TLS:          true,
		ComputeZones: []simulator.Zone{{Name: "az1"}},
	}})
	e.awaitAvailable()
	e.must(e.hasTopology("false"))
	e.parts(
		part{"ChangesNothingInGracePeriod", e.changesNothingInGracePeriod},
		part{"RestartKeepsState", e.restartKeepsState},
		part{"GracePeriodRestartsAfterSuccessfulProbe", e.gracePeriodRestartsAfterSuccessfulProbe},
	)
}

// changesNothingInGracePeriod checks that each outage is one version of a condition.
func (e *cinderEnv) changesNothingInGracePeriod() {
	before := e.awaitIdle()
	for _, f := range cinderOutages() {
		e.sub(f.name, func(*testing.T) {
			end := e.fault(f.fault)
			e.cloud.RevokeTokens() // so that the operator logs in
			watch := e.watchConditions()
			e.triggerZoneProbe()
			e.eventually(soon, func() error {
				return e.reportsOutage(cinderReachable, opv1.ConditionFalse, f)
			})
			e.awaitNoWrites()
			e.expectNoWritesFor(2 * time.Second)
			e.must(e.available())
			e.must(e.stillHas(before))
			var versions []string
			for _, c := range watch.conditions(e.scope) {
				if c.Type == cinderReachable && c.Status == opv1.ConditionFalse {
					versions = append(versions,
						fmt.Sprintf("%s: %s (since %s)", c.Reason, c.Message, c.LastTransitionTime.UTC()))
				}
			}
			versions = slices.Compact(versions) // another condition may change between
			if len(versions) != 1 {
				e.t.Errorf("the ClusterCSIDriver reported the outage in %d versions, want one:\n%s",
					len(versions), strings.Join(versions, "\n"))
			}
			end()
			bound := prompt
			if f.reason == refusedReason {
				bound += time.Minute // the operator does not repeat a refused login sooner
			}
			e.eventually(bound, func() error {
				return e.hasCondition(cinderReachable, opv1.ConditionTrue, "")
			})
			e.must(e.available())
			e.must(e.stillHas(before))
		})
	}
}

// restartKeepsState checks that a new process keeps topology and pods, and continues the grace
// period of its predecessor.
func (e *cinderEnv) restartKeepsState() {
	before := e.awaitIdle()
	e.stopOperator()
	end := e.fault(simulator.Fault{Mode: simulator.Unreachable})
	since := e.mark()
	e.startOperator()
	e.awaitReachable(opv1.ConditionFalse)
	began := time.Now()
	e.awaitNoWrites()
	e.must(e.available())
	e.must(e.stillHas(before))
	e.expectNone("the operator wrote after a restart during an outage",
		e.requests(since, request.isWrite, successful, notOfResource("clustercsidrivers", "events")))
	for time.Since(began) < grace {
		pause(e.t)
	}
	e.stopOperator()
	e.options.Args = shortGrace()
	e.startOperator()
	e.within(grace-time.Second, func() error { return e.reports(cinderDegraded, "refused") })
	e.must(e.stillHas(before))
	end()
	e.awaitAvailable()
	e.must(e.stillHas(before))
}

func (e *cinderEnv) gracePeriodRestartsAfterSuccessfulProbe() {
	// Many short outages are as long as the grace period. Each is longer on a busy machine.
	const grace, each = 15 * time.Second, 3 * time.Second
	e.options.Args = []string{"--cloud-grace-period=" + grace.String()}
	e.restartOperator()
	e.awaitAvailable()
	for total := time.Duration(0); total < grace+time.Second; {
		end := e.fault(simulator.Fault{Mode: simulator.Unreachable})
		e.triggerZoneProbe()
		e.awaitReachable(opv1.ConditionFalse)
		began := time.Now()
		e.throughout(each, e.notDegraded)
		total += time.Since(began)
		end()
		e.awaitReachable(opv1.ConditionTrue)
	}
	e.must(e.notDegraded())
}

// TestCinderTopologyOfConfig starts with enable_topology in the installer's ConfigMap, while the
// cloud is unreachable.
func TestCinderTopologyOfConfig(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{
		Args:   []string{"--cloud-grace-period=1s"},
		Faults: []simulator.Fault{{Mode: simulator.Unreachable}},
		Before: func(e *env) {
			e.putConfigMap(openshiftConfig, cloudProviderConfig,
				map[string]string{"config": "", topologyKey: "false"})
			e.setCloudConfigKey("config")
		},
	})
	e.parts(
		part{"WaitsForLoginIfTopologyIsSet", e.waitsForLoginIfTopologyIsSet},
		part{"ReadsInstalledTopology", e.readsInstalledTopology},
		part{"OwnConfigWins", e.ownConfigWins},
	)
}

func (e *cinderEnv) waitsForLoginIfTopologyIsSet() {
	e.eventually(soon, func() error {
		return e.reports(cinderDegraded, "has not accepted the credentials", "refused")
	})
	e.must(e.hasCondition(cinderReachable, opv1.ConditionFalse, unreachableReason))
	e.awaitNoWrites()
	e.must(e.hasNotStarted())
	e.must(e.cloud.ClearFaults())
	e.awaitAvailable()
	e.must(e.hasTopology("false"))
}

// readsInstalledTopology checks that enable_topology of the installer's ConfigMap is used, as in
// earlier releases, until the driver has its own ConfigMap, and that a condition says that it is
// ignored then.
func (e *cinderEnv) readsInstalledTopology() {
	e.awaitReachable(opv1.ConditionTrue)
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
			e.t.Errorf("the message of %s is %q, want it to contain %q", cinderConfigValid, message, text)
		}
	}
	e.awaitAvailable()
	e.deleteUserConfig()
	e.within(prompt, func() error { return e.hasTopology("false") })
	e.eventually(soon, func() error {
		return e.hasCondition(cinderConfigValid, opv1.ConditionTrue, "AsExpected")
	})
}

// ownConfigWins checks that the zones decide again without the administrator's setting.
func (e *cinderEnv) ownConfigWins() {
	e.awaitAvailable()
	e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{"config": ""})
	e.within(prompt, func() error { return e.hasTopology("true") })
	e.setMismatchedZones()
	e.putUserConfig(map[string]string{topologyKey: "true"})
	e.within(prompt, func() error { return e.hasTopology("true") })
	e.triggerZoneProbe()
	e.awaitNoWrites()
	e.must(e.hasTopology("true"))
	e.putUserConfig(map[string]string{})
	e.within(prompt, func() error { return e.hasTopology("false") })
}

func TestCinderProbesZonesAgain(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.parts(
		part{"KeepsTopologyDuringMaintenance", e.keepsTopologyDuringMaintenance},
		part{"ProbesZonesAgainAfterChange", e.probesZonesAgainAfterChange},
	)
}

// keepsTopologyDuringMaintenance restarts the operator while zones are unavailable.
func (e *cinderEnv) keepsTopologyDuringMaintenance() {
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
	e.setZones(simulator.Compute, "nova")
	e.setZones(simulator.Volume, "nova")
	e.startOperator()
}

func (e *cinderEnv) probesZonesAgainAfterChange() {
	e.awaitAvailable()
	for name, change := range map[string]func(){
		"credentials": func() {
			e.setClouds(append(e.cloud.CloudsYAML(simulator.Clouds{}), "# new\n"...))
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
