//go:build integration

package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	unreachableReason = "CloudUnreachable"
	refusedReason     = "AuthenticationFailed"
	notOpenStack      = "not from an OpenStack API"
	// shortly is long enough for the event that follows a condition.
	shortly = 300 * time.Millisecond
)

// failure is a way in which a cloud does not answer, or not as it should.
type outageCase struct {
	name, reason string
	fault        simulator.Fault
	// says is part of the message.
	says string
}

func statusFault(service simulator.Service, code int) simulator.Fault {
	return simulator.Fault{Mode: simulator.Status, Service: service, Status: code}
}

// failures of each kind. Their order is such that the message of each differs from that of the one before.
func outagesAtStart() []outageCase {
	return []outageCase{
		{"connection refused", unreachableReason, simulator.Fault{Mode: simulator.Unreachable}, "refused"},
		{"connection reset at once", unreachableReason, simulator.Fault{Mode: simulator.ResetConnect}, "closes the connection"},
		{"Keystone answers 503", unreachableReason, statusFault(simulator.Identity, http.StatusServiceUnavailable), "HTTP 503"},
		{"login refused", refusedReason, statusFault(simulator.Identity, http.StatusUnauthorized), "HTTP 401"},
		{"Keystone answers garbage", unreachableReason, simulator.Fault{Mode: simulator.Garbage, Service: simulator.Identity}, notOpenStack},
		{"certificate of another host", unreachableReason, simulator.Fault{Mode: simulator.BadCertificate}, "host name"},
		{"Manila answers 500", unreachableReason, statusFault(simulator.Share, http.StatusInternalServerError), "HTTP 500"},
		{"Manila resets requests", unreachableReason, simulator.Fault{Mode: simulator.Reset, Service: simulator.Share}, "closes the connection"},
	}
}

// moreFailures are variants.
func laterOutages() []outageCase {
	certificate := func(kind simulator.Certificate) simulator.Fault {
		return simulator.Fault{Mode: simulator.BadCertificate, Certificate: kind}
	}
	return []outageCase{
		{"connection refused", unreachableReason, simulator.Fault{Mode: simulator.Unreachable}, "refused"},
		{"certificate expired", unreachableReason, certificate(simulator.Expired), "expired"},
		{"certificate of an unknown CA", unreachableReason, certificate(simulator.OtherCA), "unknown authority"},
		{"login forbidden", refusedReason, statusFault(simulator.Identity, http.StatusForbidden), "HTTP 403"},
		{"Manila answers 502", unreachableReason, statusFault(simulator.Share, http.StatusBadGateway), "HTTP 502"},
		{"Manila answers garbage", unreachableReason, simulator.Fault{Mode: simulator.Garbage, Service: simulator.Share}, notOpenStack},
		{"Manila breaks off its answers", unreachableReason, simulator.Fault{Mode: simulator.Truncated, Service: simulator.Share}, "closes the connection"},
	}
}

// TestUnreachableAtFirst: a cloud that cannot be reached before anything was deployed disables the driver and degrades nothing
// (fault 1). The same failure, however often, is one write to the cluster and at most two connections per look (1.11-2, 1.11-3).
func TestUnreachableAtFirst(t *testing.T) {
	t.Parallel()
	all := outagesAtStart()
	e := newEnv(t, options{Cloud: simulator.Config{TLS: true}, Idle: true})
	end := e.fault(all[0].fault)
	e.startOperator()
	for i, f := range all {
		if i > 0 {
			next := e.fault(f.fault)
			end()
			end = next
			e.retryLogin(all[i-1])
		}
		e.eventually(soon, func() error { return e.reportsOutage(disabled, opv1.ConditionTrue, f) })
		e.eventually(soon, func() error { return e.reportsOutage(reachable, opv1.ConditionFalse, f) })
		e.awaitNoWritesFor(shortly)
		before, err := e.polls()
		e.must(err)
		connections := e.counters().Connections
		e.expectNoWritesDuring(5)
		connections = e.counters().Connections - connections
		after, err := e.polls()
		e.must(err)
		// One look may have been under way at either end.
		if most := 2 * (int(after-before) + 1); connections > most {
			t.Errorf("%s: %d connections during %v looks, want at most two each", f.name, connections, after-before)
		}
		e.mustNotBeDeployed()
	}
	e.eventually(soon, func() error { return e.hasEvent("ManilaCloudUnreachable") })
	end()
	e.awaitAvailable()
	e.must(e.hasNoCondition(disabled))
}

// tells returns nil if the condition is there and tells of the failure.
func (e *env) reportsOutage(conditionType string, status opv1.ConditionStatus, f outageCase) error {
	if err := e.hasCondition(conditionType, status, f.reason); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if message := e.message(conditionType); !strings.Contains(message, f.says) {
		return fmt.Errorf("%s: the message of %s is %q, want it to say %q", f.name, conditionType, message, f.says)
	}
	return nil
}

// TestHangAtStart: within 2 s of the start of the process a condition is there even when the first call hangs; when the cloud
// answers at last, that answer counts.
func TestHangAtStart(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Idle: true})
	end := e.fault(simulator.Fault{Mode: simulator.Hang})
	const bound = 2 * time.Second
	p := e.startOperator()
	e.eventually(soon, func() error { return e.hasCondition(disabled, opv1.ConditionTrue, unreachableReason) })
	if took := p.started.elapsed(); took > bound {
		t.Errorf("the first condition came %v after the start of the process, want at most %v", took, bound)
	}
	e.mustNotBeDeployed()
	e.awaitNoWrites()
	end()
	e.awaitAvailable()
}

// TestStopDuringHang: an operator that waits for the cloud ends at once when it is told to.
func TestStopDuringHang(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Faults: []simulator.Fault{{Mode: simulator.Hang}}})
	e.eventually(soon, func() error { return e.hasCondition(disabled, opv1.ConditionTrue, "") })
	watch := startWatch()
	e.stopOperator()
	if took := watch.elapsed(); took > 3*time.Second {
		t.Errorf("the operator took %v to end", took)
	}
}

// TestUnreachableLater: an outage after the drivers were started disables nothing: a neutral condition, an event and a metric
// tell of it, and drivers and StorageClasses are left alone.
func TestUnreachableLater(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Cloud: simulator.Config{TLS: true}})
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	for _, f := range laterOutages() {
		end := e.fault(f.fault)
		e.revokeTokens() // so that failures of the login show
		e.eventually(soon, func() error { return e.reportsOutage(reachable, opv1.ConditionFalse, f) })
		e.must(e.available()) // and neither disabled nor degraded
		e.eventually(soon, func() error { return e.isMetric("openstack_csi_cloud_reachable", 0) })
		end()
		e.retryLogin(f)
		e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionTrue, "") })
		e.eventually(soon, func() error { return e.isMetric("openstack_csi_cloud_reachable", 1) })
	}
	e.eventually(soon, func() error { return e.hasEvent("ManilaCloudUnreachable") })
	e.expectNone("the driver's objects were written during outages", e.requests(since, request.isWrite, notOfResource("clustercsidrivers", "events")))
}

func (e *env) isMetric(name string, want float64) error {
	got, err := e.metric(name, `service="Manila"`)
	if err == nil && got != want {
		err = fmt.Errorf("metric %s is %v, want %v", name, got, want)
	}
	return err
}

// TestOutageLaterIsOneWrite: an outage of a running driver is told once.
func TestOutageLaterIsOneWrite(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	e.fault(statusFault("", http.StatusBadGateway))
	e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionFalse, unreachableReason) })
	e.awaitNoWrites()
	if writes := e.requests(since, statusWrites); len(writes) != 1 {
		t.Errorf("an outage is %d writes of the status, want one:\n%s", len(writes), list(writes))
	}
	e.expectNoWritesDuring(5)
}

// TestRestartDuringOutage: an operator that starts during an outage and finds the driver goes on reconciling it.
func TestRestartDuringOutage(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	e.awaitNoWrites()
	e.stopOperator()
	e.fault(simulator.Fault{Mode: simulator.Unreachable})
	const image = "registry.example.com/csi-driver-manila:next"
	e.options.Env = append(e.options.Env, "DRIVER_IMAGE="+image)
	since := e.mark()
	e.startOperator()
	e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionFalse, unreachableReason) })
	e.eventually(soon, func() error { return e.controllerHas(func(c container) bool { return c.image == image }) })
	e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.LogLevel = opv1.Trace })
	e.eventually(soon, func() error {
		return e.controllerHas(func(c container) bool { return c.image == image && slices.Contains(c.args, "--v=6") })
	})
	e.awaitAvailable()
	e.expectNone("a restart during an outage deletes", e.requests(since, deletions, notOfResource("events")))
}

// container is what tests look at of one.
type container struct {
	image string
	args  []string
}

// controllerHas returns nil if a container of the controller's Deployment is as wanted.
func (e *env) controllerHas(wanted func(container) bool) error {
	deployment, err := e.controller()
	if err != nil {
		return err
	}
	var seen []string
	for _, c := range deployment.Spec.Template.Spec.Containers {
		if wanted(container{c.Image, c.Args}) {
			return nil
		}
		seen = append(seen, fmt.Sprintf("%s %s %v", c.Name, c.Image, c.Args))
	}
	return fmt.Errorf("no container is as wanted:\n%s", strings.Join(seen, "\n"))
}

// controller returns the driver's Deployment.
func (e *env) controller() (*appsv1.Deployment, error) {
	return e.guest.kube.AppsV1().Deployments(operandNamespace).Get(e.ctx(), controllerName, metav1.GetOptions{})
}
