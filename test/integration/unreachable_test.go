//go:build integration

package integration

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
	"github.com/openstack-csi/csi-operator/test/stopwatch"
)

const (
	unreachableReason = "CloudUnreachable"
	refusedReason     = "AuthenticationFailed"
)

// outageCase is a way in which a cloud fails.
type outageCase struct {
	name, reason string
	fault        simulator.Fault
	// message is contained in the condition's message.
	message string
}

func statusFault(service simulator.Service, code int) simulator.Fault {
	return simulator.Fault{Mode: simulator.Status, Service: service, Status: code}
}

func refusesConnections() outageCase {
	fault := simulator.Fault{Mode: simulator.Unreachable}
	return outageCase{"connection refused", unreachableReason, fault, "refused"}
}

// TestOutageKeepsDriver begins with outages before the driver exists.
func TestOutageKeepsDriver(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Cloud: simulator.Config{TLS: true}, Idle: true})
	end := e.fault(simulator.Fault{Mode: simulator.Hang})
	e.parts(
		part{"HangAtStartIsReportedWithinTwoSeconds", e.reportsHangAtStart},
		part{"HangDoesNotDelayStop", e.mustStopPromptly},
		part{"DriverIsDisabledDuringOutages", func() { e.staysDisabledDuringOutages(end) }},
		part{"KeepsDriverDuringOutages", e.keepsDriverDuringOutages},
		part{"WritesOutageOnce", e.writesOutageOnce},
		part{"ReconcilesAfterRestartDuringOutage", e.reconcilesAfterRestartDuringOutage},
	)
}

func (e *env) reportsHangAtStart() {
	e.startOperator()
	e.eventually(2*time.Second, func() error {
		return e.hasCondition(disabled, opv1.ConditionTrue, unreachableReason)
	})
	e.mustNotBeDeployed()
	e.awaitNoWrites()
}

// staysDisabledDuringOutages checks that the operator uses the first good response. It calls end
// when the first outage begins.
func (e *env) staysDisabledDuringOutages(end func()) {
	e.startOperator()
	e.eventually(soon, func() error { return e.hasCondition(disabled, opv1.ConditionTrue, "") })
	for _, f := range []outageCase{
		refusesConnections(),
		{
			"Keystone returns 503", unreachableReason,
			statusFault(simulator.Identity, http.StatusServiceUnavailable), "HTTP 503",
		},
	} {
		next := e.fault(f.fault)
		end()
		end = next
		e.eventually(soon, func() error {
			return errors.Join(e.reportsOutage(disabled, opv1.ConditionTrue, f),
				e.reportsOutage(reachable, opv1.ConditionFalse, f))
		})
		e.mustNotBeDeployed()
	}
	e.eventually(soon, func() error { return e.hasEvent("ManilaCloudUnreachable") })
	end()
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.hasNoCondition(disabled) })
}

// reportsOutage returns nil if the condition reports the outage.
func (e *env) reportsOutage(conditionType string, status opv1.ConditionStatus, f outageCase) error {
	if err := e.hasCondition(conditionType, status, f.reason, f.message); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// mustStopPromptly checks that the operator ends after SIGTERM before it gives up, after 10 s.
func (e *env) mustStopPromptly() {
	e.t.Helper()
	watch := stopwatch.Start()
	e.stopOperator()
	if took := watch.Took(); took > 8*time.Second {
		e.t.Errorf("the operator ended after %v", took)
	}
}

// keepsDriverDuringOutages checks that a neutral condition, an event and a metric report an outage
// of a running driver, and that the operator writes no object of the driver but a new login.
func (e *env) keepsDriverDuringOutages() {
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	for _, f := range []outageCase{
		refusesConnections(),
		{
			"certificate expired", unreachableReason,
			simulator.Fault{Mode: simulator.BadCertificate, Certificate: simulator.Expired},
			"expired",
		},
	} {
		end := e.fault(f.fault)
		e.cloud.RevokeTokens() // so that the operator logs in
		e.eventually(soon, func() error { return e.reportsOutage(reachable, opv1.ConditionFalse, f) })
		e.must(e.available())
		e.eventually(soon, func() error { return e.isMetric("openstack_csi_cloud_reachable", 0) })
		end()
		e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionTrue, "") })
		e.eventually(soon, func() error { return e.isMetric("openstack_csi_cloud_reachable", 1) })
	}
	e.eventually(soon, func() error { return e.hasEvent("ManilaCloudUnreachable") })
	e.expectNone("the operator wrote objects of the driver",
		e.requests(since, request.isWrite, notOfResource("clustercsidrivers", "events", "secrets")))
}

func (e *env) isMetric(name string, want float64) error {
	got, err := e.metric(name, `service="Manila"`)
	if err == nil && got != want {
		err = fmt.Errorf("metric %s is %v, want %v", name, got, want)
	}
	return err
}

func (e *env) writesOutageOnce() {
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	end := e.fault(statusFault("", http.StatusBadGateway))
	e.eventually(soon, func() error {
		return errors.Join(e.hasCondition(reachable, opv1.ConditionFalse, unreachableReason),
			e.hasCondition(ready, opv1.ConditionFalse, unreachableReason, reachable))
	})
	written, err := e.driver()
	e.must(err)
	e.awaitNoWrites()
	// The operator writes two conditions. On a busy machine it can write one again before its cache
	// contains what it wrote, which changes nothing.
	const most = 4
	now, err := e.driver()
	e.must(err)
	assert.Check(e.t, is.DeepEqual(written, now),
		"the operator changed the status again during the outage")
	if writes := e.requests(since, statusWrites, successful); len(writes) > most {
		e.t.Errorf("the operator wrote the status %d times during an outage, want at most %d:\n%s",
			len(writes), most, list(writes))
	}
	e.expectNoWritesDuring(5)
	end()
	e.eventually(soon, func() error {
		return errors.Join(e.hasCondition(reachable, opv1.ConditionTrue, ""),
			e.hasCondition(ready, opv1.ConditionTrue, ""))
	})
}

func (e *env) reconcilesAfterRestartDuringOutage() {
	e.awaitAvailable()
	e.awaitNoWrites()
	e.stopOperator()
	e.fault(simulator.Fault{Mode: simulator.Unreachable})
	const image = "registry.example.com/csi-driver-manila:next"
	e.options.Env = append(e.options.Env, "DRIVER_IMAGE="+image)
	since := e.mark()
	e.startOperator()
	e.eventually(soon, func() error {
		return e.hasCondition(reachable, opv1.ConditionFalse, unreachableReason)
	})
	updated := func(c corev1.Container) bool { return c.Image == image }
	e.eventually(soon, func() error { return e.controllerHas(updated) })
	e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.LogLevel = opv1.Trace })
	e.eventually(soon, func() error {
		return e.controllerHas(func(c corev1.Container) bool {
			return c.Image == image && slices.Contains(c.Args, "--v=6")
		})
	})
	e.awaitAvailable()
	e.expectNone("the operator deleted objects after a restart during an outage",
		e.requests(since, deletions, notOfResource("events")))
}

// controllerHas returns nil if a container of the Deployment is as wanted.
func (e *env) controllerHas(wanted func(corev1.Container) bool) error {
	controller, err := e.workload(controllerName)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(controller.Pod.Containers, wanted) {
		return fmt.Errorf("no container is as wanted: %v", controller.Pod.Containers)
	}
	return nil
}
