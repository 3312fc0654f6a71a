//go:build integration

package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// grace is the grace period in these tests.
const grace = 5 * time.Second

func shortGrace() []string { return []string{"--cloud-grace-period=" + grace.String()} }

// mustHaveWaited checks that the driver was not degraded before the grace period had passed. began
// precedes the first failure. The transition time of a condition has no fractions of a second.
func (e *cinderEnv) mustHaveWaited(began time.Time) {
	e.t.Helper()
	conditions, err := e.conditions()
	e.must(err)
	took := conditions[cinderDegraded].LastTransitionTime.Sub(began)
	if took < grace-time.Second {
		e.t.Errorf("the driver was degraded after %v, want %v", took, grace)
	}
}

// awaitIdle waits until the driver is available and the operator writes nothing.
func (e *cinderEnv) awaitIdle() driverState {
	e.t.Helper()
	e.awaitAvailable()
	e.awaitNoWrites()
	return e.driverState()
}

// awaitReachable waits until the condition about the cloud has the status.
func (e *cinderEnv) awaitReachable(status opv1.ConditionStatus) {
	e.t.Helper()
	reason := ""
	if status == opv1.ConditionFalse {
		reason = unreachableReason
	}
	e.eventually(soon, func() error { return e.hasCondition(cinderReachable, status, reason) })
}

// cinderOutages returns outages of each kind, for a cloud with TLS.
func cinderOutages() []outageCase {
	return append(commonOutages(),
		returnsStatus("Nova", simulator.Compute, http.StatusInternalServerError),
		returnsStatus("Cinder", simulator.Volume, http.StatusBadGateway),
		closesConnections("Cinder resets requests", simulator.Reset, simulator.Volume),
		returnsGarbage("Cinder", simulator.Volume),
		closesConnections("Nova breaks off its responses", simulator.Truncated, simulator.Compute))
}

// TestCinderOutageChangesNothingInGracePeriod starts with topology off, which a failed probe must
// not change.
func TestCinderOutageChangesNothingInGracePeriod(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Cloud: simulator.Config{
		TLS:          true,
		ComputeZones: []simulator.Zone{{Name: "az1"}},
	}})
	before := e.awaitIdle()
	e.must(e.hasTopology("false"))
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
			if len(versions) != 1 {
				e.t.Errorf("the ClusterCSIDriver reported the outage in %d versions, want one:\n%s",
					len(versions), strings.Join(versions, "\n"))
			}
			end()
			e.retryLogin(f)
			e.within(prompt, func() error { return e.hasCondition(cinderReachable, opv1.ConditionTrue, "") })
			e.must(e.available())
			e.must(e.stillHas(before))
		})
	}
}

func (e *cinderEnv) survivesHang() {
	before := e.awaitIdle()
	e.fault(simulator.Fault{Mode: simulator.Hang})
	e.triggerZoneProbe()
	e.expectNoWritesFor(2 * time.Second)
	e.must(e.stillHas(before))
	e.putUserConfig(map[string]string{"config": "[BlockStorage]\nrescan-on-resize = true\n"})
	e.within(prompt, func() error { return e.hasConf("\n[BlockStorage]\nrescan-on-resize = true\n") })
	e.mustStopPromptly()
}

func TestCinderDegradesAfterGracePeriod(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Args: shortGrace()})
	e.parts(
		part{"DegradesAfterGracePeriod", e.degradesAfterGracePeriod},
		part{"SurvivesHang", e.survivesHang},
	)
}

// degradesAfterGracePeriod checks that the message does not change during the outage.
func (e *cinderEnv) degradesAfterGracePeriod() {
	before := e.awaitIdle()
	began := time.Now()
	end := e.fault(statusFault("", http.StatusServiceUnavailable))
	e.triggerZoneProbe()
	e.awaitReachable(opv1.ConditionFalse)
	watch := startWatch()
	e.eventually(soon, func() error { return e.reports(cinderDegraded, "HTTP 503", grace.String()) })
	if took := watch.elapsed(); took > grace+5*time.Second {
		e.t.Errorf("the driver was degraded %v after the condition %s", took, cinderReachable)
	}
	e.mustHaveWaited(began)
	e.must(e.hasOnlyDegraded(cinderDegraded))
	e.awaitNoWrites()
	reported, err := e.driver()
	e.must(err)
	e.expectNoWritesFor(6 * time.Second)
	after, err := e.driver()
	e.must(err)
	if diff := cmp.Diff(reported.Status.Conditions, after.Status.Conditions); diff != "" {
		e.t.Errorf("the conditions changed during one outage:\n%s", diff)
	}
	e.must(e.stillHas(before))
	end()
	e.within(prompt, func() error { return e.hasCondition(cinderDegraded, opv1.ConditionFalse, "") })
	e.awaitAvailable()
	e.must(e.stillHas(before))
}

func TestCinderGracePeriodRestartsAfterSuccessfulProbe(t *testing.T) {
	t.Parallel()
	// Many short outages are as long as the grace period. Each is longer on a busy machine.
	const grace, each = 15 * time.Second, 3 * time.Second
	e := newCinder(t, options{Args: []string{"--cloud-grace-period=" + grace.String()}})
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

// TestCinderProgressesUntilFirstProbe checks that the driver is degraded after the grace period,
// and that no configuration is written before the first successful probe.
func TestCinderProgressesUntilFirstProbe(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{
		Args:   shortGrace(),
		Faults: []simulator.Fault{{Mode: simulator.Unreachable}},
	})
	nothing := func() error {
		if conf, err := e.cloudConf(); err == nil {
			return fmt.Errorf("cloud-conf exists: %v", conf)
		}
		return e.hasNoWorkloads()
	}
	e.eventually(prompt, func() error { return e.reports(cinderProgressing, "refused") })
	e.eventually(soon, func() error {
		e.must(nothing())
		return e.reports(cinderDegraded, "refused", grace.String())
	})
	e.mustHaveWaited(e.began.time)
	e.must(e.hasOnlyDegraded(cinderDegraded))
	e.awaitNoWrites()
	e.expectNoWritesFor(3 * time.Second)
	e.must(nothing())
	e.must(e.cloud.ClearFaults())
	e.awaitAvailable()
	e.must(e.hasTopology("true"))
}

func TestCinderReportsHangingFirstProbe(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Faults: []simulator.Fault{{Mode: simulator.Hang}}})
	e.eventually(prompt, func() error { return e.reports(cinderProgressing, "has not answered yet") })
	e.must(e.notDegraded())
	e.must(e.cloud.ClearFaults())
	e.awaitAvailable()
}

// TestCinderRestartDuringOutageKeepsState checks that a new process keeps topology and pods, and
// continues the grace period of its predecessor.
func TestCinderRestartDuringOutageKeepsState(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Cloud: simulator.Config{ComputeZones: []simulator.Zone{{Name: "az1"}}}})
	before := e.awaitIdle()
	e.must(e.hasTopology("false"))
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
		pause(t)
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
