//go:build integration

package integration

import (
	"errors"
	"testing"

	opv1 "github.com/openshift/api/operator/v1"
)

const (
	disabled  = "ManilaControllerDisabled"
	reachable = "ManilaCloudReachable"
	ready     = "Ready"
)

// manilaProblem is a reason why a reachable cloud does not offer Manila.
type manilaProblem struct {
	outageCase
	begin func(*env) (end func())
}

func manilaProblems() []manilaProblem {
	return []manilaProblem{
		{outageCase{
			name: "no sharev2 in the catalog", reason: "NoManila",
			message: "catalog has no shared-file-system",
		}, func(e *env) func() {
			e.t.Helper()
			e.cloud.RemoveFromCatalog("sharev2")
			e.cloud.RevokeTokens() // the catalog is part of a token
			return func() { e.cloud.RestoreToCatalog("sharev2") }
		}},
		{
			outageCase{name: "no share types", reason: "NoShareTypes", message: "no share types"},
			func(e *env) func() {
				e.t.Helper()
				e.must(e.cloud.RemoveShareType("default"))
				return func() { e.addType("default") }
			},
		},
	}
}

func TestDriverFollowsManila(t *testing.T) {
	t.Parallel()
	all := manilaProblems()
	var end func()
	e := newEnv(t, options{Before: func(e *env) {
		end = all[0].begin(e)
		e.addTrueConditions("PreConditionNotSatisfied", "of an earlier release", "CSIControllerDisabled")
	}})
	e.parts(
		part{"MissingManilaDisablesDriver", func() { e.staysDisabled(all, end) }},
		part{"DriverStaysWhenManilaDisappears", e.keepsDriverWithoutManila},
	)
}

// staysDisabled checks that nothing is degraded, and that the drivers start as soon as the cloud
// offers Manila. The first problem is present, and end ends it.
func (e *env) staysDisabled(all []manilaProblem, end func()) {
	for i, l := range all {
		if i > 0 {
			next := l.begin(e)
			end()
			end = next
		}
		e.eventually(soon, func() error { // several controllers write these conditions
			return errors.Join(e.reportsOutage(disabled, opv1.ConditionTrue, l.outageCase),
				e.hasNoCondition("CSIControllerDisabled"), e.hasCondition(reachable, opv1.ConditionTrue, ""))
		})
		e.mustNotBeDeployed()
	}
	e.eventually(soon, func() error { return e.hasEvent("ManilaDisabled") })
	end()
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.hasClasses("csi-manila-default") })
	e.eventually(soon, func() error { return e.hasNoCondition(disabled) })
}

// mustNotBeDeployed checks that nothing is degraded and that no object of the driver exists.
func (e *env) mustNotBeDeployed() {
	e.t.Helper()
	e.eventually(soon, e.notDegraded)
	e.must(errors.Join(e.hasNoWorkloads(), e.hasClasses()))
}

// keepsDriverWithoutManila checks that the operator reports the missing Manila, keeps drivers and
// StorageClasses, and still repairs the drivers.
func (e *env) keepsDriverWithoutManila() {
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	for _, l := range manilaProblems() {
		end := l.begin(e)
		e.eventually(soon, func() error {
			return e.reportsOutage(disabled, opv1.ConditionTrue, l.outageCase)
		})
		e.must(e.hasClasses("csi-manila-default"))
		e.eventually(soon, e.notDegraded)
		end()
		e.eventually(soon, func() error { return e.hasNoCondition(disabled) })
	}
	e.expectNone("the operator wrote objects of the driver",
		e.requests(since, request.isWrite, notOfResource("clustercsidrivers", "events")))
	e.must(e.cloud.RemoveShareType("default"))
	e.eventually(soon, func() error {
		return e.hasCondition(disabled, opv1.ConditionTrue, "NoShareTypes")
	})
	e.delete(resource("apps", "daemonsets"), operandNamespace, nodeName)
	e.eventually(soon, func() error {
		_, err := e.daemonSet(nodeName)
		return err
	})
	e.addType("default")
	e.eventually(soon, func() error { return e.hasNoCondition(disabled) })
}
