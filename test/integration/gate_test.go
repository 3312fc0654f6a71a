//go:build integration

package integration

import (
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	disabled  = "ManilaControllerDisabled"
	reachable = "ManilaCloudReachable"
)

// lack is a way in which a cloud that answers does not offer Manila.
type manilaProblem struct {
	outageCase
	begin func(*env) (end func())
}

func manilaProblems() []manilaProblem {
	refused := func(status int) func(*env) func() {
		return func(e *env) func() {
			e.t.Helper()
			return e.fault(simulator.Fault{Mode: simulator.Status, Service: simulator.Share, Status: status})
		}
	}
	return []manilaProblem{
		{outageCase{name: "no sharev2 in the catalog", reason: "NoManila", says: "catalog has no sharev2"}, func(e *env) func() {
			e.t.Helper()
			e.must(e.cloud.RemoveFromCatalog(e.ctx(), "sharev2"))
			_, err := e.cloud.RevokeTokens(e.ctx()) // a catalog comes with a token
			e.must(err)
			return func() { e.must(e.cloud.RestoreToCatalog(e.ctx(), "sharev2")) }
		}},
		{outageCase{name: "no share types", reason: "NoShareTypes", says: "no share types"}, func(e *env) func() {
			e.t.Helper()
			e.must(e.cloud.RemoveShareType(e.ctx(), "default"))
			return func() { e.addType("default") }
		}},
		{outageCase{name: "share types refused", reason: "NoManila", says: "HTTP 403"}, refused(http.StatusForbidden)},
		{outageCase{name: "share types not found", reason: "NoManila", says: "HTTP 404"}, refused(http.StatusNotFound)},
	}
}

// TestNotOffered: a cloud that does not offer Manila disables the driver, with a reason, and degrades nothing (faults 2, 3, 9).
// Looking again tells nothing new. As soon as Manila is there, the drivers start and Disabled is removed.
func TestNotOffered(t *testing.T) {
	t.Parallel()
	all := manilaProblems()
	var end func()
	e := newEnv(t, options{Before: func(e *env) { end = all[0].begin(e) }})
	for i, l := range all {
		if i > 0 {
			next := l.begin(e)
			end()
			end = next
		}
		e.eventually(soon, func() error { return e.reportsOutage(disabled, opv1.ConditionTrue, l.outageCase) })
		e.awaitNoWritesFor(shortly)
		e.expectNoWritesDuring(5)
		e.must(e.hasCondition(disabled, opv1.ConditionTrue, l.reason))
		e.must(e.hasCondition(reachable, opv1.ConditionTrue, ""))
		e.mustNotBeDeployed()
	}
	e.eventually(soon, func() error { return e.hasEvent("ManilaDisabled") })
	end()
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.hasClasses("csi-manila-default") })
	e.must(e.hasNoCondition(disabled))
}

// mustNotDeploy checks that nothing is degraded, and nothing there of the driver.
func (e *env) mustNotBeDeployed() {
	e.t.Helper()
	e.must(e.notDegraded())
	e.must(e.hasNoWorkloads())
	e.must(e.hasClasses())
}

// TestVanishedManila: when the cloud offers no Manila any more, the status says so, but drivers and StorageClasses stay, and the
// drivers go on being repaired (1.11-7).
func TestVanishedManila(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	for _, l := range manilaProblems() {
		end := l.begin(e)
		e.eventually(soon, func() error { return e.reportsOutage(disabled, opv1.ConditionTrue, l.outageCase) })
		e.must(e.hasClasses("csi-manila-default"))
		e.must(e.notDegraded())
		end()
		e.eventually(soon, func() error { return e.hasNoCondition(disabled) })
	}
	e.expectNone("the driver's objects were written while Manila came and went", e.requests(since, request.isWrite, notOfResource("clustercsidrivers", "events")))
	e.must(e.cloud.RemoveShareType(t.Context(), "default"))
	e.eventually(soon, func() error { return e.hasCondition(disabled, opv1.ConditionTrue, "NoShareTypes") })
	e.must(e.guest.kube.AppsV1().DaemonSets(operandNamespace).Delete(t.Context(), nodeName, metav1.DeleteOptions{}))
	e.eventually(soon, func() error {
		_, err := e.guest.kube.AppsV1().DaemonSets(operandNamespace).Get(t.Context(), nodeName, metav1.GetOptions{})
		return err
	})
}

// TestDisabledOfOlderOperators: what earlier releases wrote is removed when the cloud offers Manila; it is not enough to set it
// to False, since CSO looks for the type alone.
func TestDisabledOfOlderOperators(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Before: func(e *env) {
		e.changeDriverStatus(func(status *opv1.ClusterCSIDriverStatus) {
			for _, conditionType := range []string{disabled, "CSIControllerDisabled"} {
				status.Conditions = append(status.Conditions, opv1.OperatorCondition{
					Type: conditionType, Status: opv1.ConditionTrue, Reason: "PreConditionNotSatisfied",
					Message: "Pre-condition not satisfied: manila does not provide any share types", LastTransitionTime: metav1.Now(),
				})
			}
		})
	}})
	e.awaitAvailable()
	all, err := e.conditions()
	e.must(err)
	found := all.withSuffix("Disabled")
	if len(found) > 0 {
		t.Errorf("conditions %v are left", found)
	}
	e.awaitNoWrites()
	e.expectNoWritesDuring(3)
}

// TestDisabledIsReplaced: what an earlier release wrote is brought up to date when the cloud does not offer Manila.
func TestDisabledIsReplaced(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Types: noTypes(), Before: func(e *env) {
		e.changeDriverStatus(func(status *opv1.ClusterCSIDriverStatus) {
			status.Conditions = append(status.Conditions, opv1.OperatorCondition{
				Type: "CSIControllerDisabled", Status: opv1.ConditionTrue, Reason: "PreConditionNotSatisfied",
				Message: "Pre-condition not satisfied", LastTransitionTime: metav1.Now(),
			})
		})
	}})
	e.eventually(soon, func() error {
		all, err := e.conditions()
		if err != nil {
			return err
		}
		found := all.withSuffix("Disabled")
		if len(found) != 1 || found[0].Type != disabled || found[0].Reason != "NoShareTypes" {
			return fmt.Errorf("the *Disabled conditions are %v, want %s alone", found, disabled)
		}
		return nil
	})
	e.awaitNoWrites()
	e.expectNoWritesDuring(3)
}
