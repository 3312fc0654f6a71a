//go:build integration

package integration

import (
	"net/http"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

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
	assert.Check(e.t, took >= grace-time.Second,
		"the driver was degraded after %v, want %v", took, grace)
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

func (e *cinderEnv) survivesHang() {
	before := e.awaitIdle()
	e.fault(simulator.Fault{Mode: simulator.Hang})
	e.triggerZoneProbe()
	e.must(e.stillHas(before))
	e.putUserConfig(map[string]string{"config": "[BlockStorage]\nrescan-on-resize = true\n"})
	e.eventually(prompt, func() error {
		return e.hasConf("\n[BlockStorage]\nrescan-on-resize = true\n")
	})
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

// degradesAfterGracePeriod checks that the message does not change during the outage, and that a
// new process keeps topology and pods.
func (e *cinderEnv) degradesAfterGracePeriod() {
	before := e.awaitIdle()
	began := time.Now()
	end := e.fault(statusFault("", http.StatusServiceUnavailable))
	e.triggerZoneProbe()
	e.awaitReachable(opv1.ConditionFalse)
	e.eventually(grace+prompt, func() error {
		return e.reports(cinderDegraded, "HTTP 503", grace.String())
	})
	e.mustHaveWaited(began)
	e.awaitNoWrites()
	e.must(e.hasOnlyDegraded(cinderDegraded))
	reported, err := e.driver()
	e.must(err)
	e.expectNoWritesFor(6 * time.Second)
	after, err := e.driver()
	e.must(err)
	assert.Check(e.t, is.DeepEqual(reported.Status.Conditions, after.Status.Conditions),
		"the conditions changed during one outage")
	e.restartOperator()
	e.awaitReachable(opv1.ConditionFalse)
	e.awaitNoWrites()
	e.must(e.stillHas(before))
	end()
	e.eventually(prompt, func() error {
		return e.hasCondition(cinderDegraded, opv1.ConditionFalse, "")
	})
	e.awaitAvailable()
	e.must(e.stillHas(before))
}
