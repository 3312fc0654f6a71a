//go:build integration

package integration

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// followed bounds what an operator does when an API server is back: its informers may have just begun to wait for long.
	recoveryBound = time.Minute
	// shortElection has a lease be lost soon.
	shortElection = "leaderElection:\n  leaseDuration: 6s\n  renewDeadline: 4s\n  retryPeriod: 1s\n"
)

// outage is how long an API server is away. OUTAGE lengthens it for a run by hand.
func outage(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("OUTAGE")
	if text == "" {
		return 30 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// driverPods are all pods of the driver, in both clusters, by UID.
func (e *env) driverPods() (map[string]string, error) {
	found := map[string]string{}
	for _, at := range e.driverNamespaces() {
		pods, err := at.cluster.kube.CoreV1().Pods(at.namespace).List(e.ctx(), metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, pod := range pods.Items {
			restarts := int32(0)
			for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
				restarts += c.RestartCount
			}
			found[string(pod.UID)] = fmt.Sprintf("%s/%s, %d restarts", pod.Namespace, pod.Name, restarts)
		}
	}
	if len(found) < len(e.subject.workloads) {
		return nil, fmt.Errorf("there are only the pods %v", slices.Sorted(maps.Values(found)))
	}
	return found, nil
}

// calm is what an outage must leave alone.
type steadyState struct {
	since     auditMark
	workloads map[string]workload
	pods      map[string]string
}

// calm waits until the driver runs and nothing is done any more.
func (e *env) awaitSteadyState() steadyState {
	e.t.Helper()
	e.awaitAvailable()
	since := e.awaitNoWrites()
	pods, err := e.driverPods()
	e.must(err)
	return steadyState{since, e.workloads(), pods}
}

// mustBeCalm checks that nothing was deleted, no pod template changed and no pod restarted.
func (e *env) mustBeInState(before steadyState) {
	e.t.Helper()
	e.expectNone("the operator deleted", e.requests(before.since, deletions))
	e.must(e.sameGenerations(before.workloads))
	for name, was := range before.workloads {
		now, err := e.workload(name)
		e.must(err)
		if diff := cmp.Diff(was.Pod, now.Pod) + cmp.Diff(was.TemplateHashes, now.TemplateHashes); diff != "" {
			e.t.Errorf("the pods of %s are to be others:\n%s", name, diff)
		}
	}
	pods, err := e.driverPods()
	e.must(err)
	if diff := cmp.Diff(before.pods, pods); diff != "" {
		e.t.Errorf("pods of the driver are others, or have restarted:\n%s", diff)
	}
}

// mustFollowBoth checks that changes in either cluster, and in the cloud, are followed.
func (e *env) mustReconcileBothSides() {
	e.t.Helper()
	e.patchControlPlane(`{"labels":{"after":"the-outage"}}`)
	e.must(e.guest.kube.RbacV1().ClusterRoleBindings().Delete(e.ctx(), e.provisionerBinding(), metav1.DeleteOptions{}))
	if e.subject.name == operatorName {
		e.addType("after")
	}
	e.eventually(recoveryBound, func() error {
		d, err := e.deployment()
		if err != nil {
			return err
		}
		if d.Spec.Template.Labels["after"] != "the-outage" {
			return errors.New("the Deployment does not follow the HostedControlPlane")
		}
		if _, err := e.guest.kube.RbacV1().ClusterRoleBindings().Get(e.ctx(), e.provisionerBinding(), metav1.GetOptions{}); err != nil {
			return err
		}
		if e.subject.name == operatorName {
			return e.hasClasses("csi-manila-after", "csi-manila-default")
		}
		return nil
	})
	e.eventually(recoveryBound, e.available)
}

// someBinding is the name of a ClusterRoleBinding of the driver.
func (e *env) provisionerBinding() string {
	if e.subject.name == operatorName {
		return provisionerBinding
	}
	return "openstack-cinder-csi-main-provisioner-binding"
}

// mustEndure checks that the same process runs for the time.
func (e *env) mustKeepRunning(d time.Duration) {
	e.t.Helper()
	e.throughout(d, func() error {
		if !e.operator.running() {
			return fmt.Errorf("the operator ended: %w", e.operator.err)
		}
		return nil
	})
}

// TestHyperShiftGuestAway: while the guest's API server is away the operator waits. When it is back nothing has been deleted and
// no pod restarted, and changes are followed by the same process.
func TestHyperShiftGuestAway(t *testing.T) {
	t.Parallel()
	e := newHosted(t, manila(), options{})
	before, p := e.awaitSteadyState(), e.operator
	for _, how := range []string{"refuse", "hang"} {
		back := e.stopAPI(e.guest, how)
		e.mustKeepRunning(outage(t) / 2)
		back()
	}
	e.eventually(recoveryBound, e.available)
	e.mustBeInState(before)
	e.mustReconcileBothSides()
	e.mustStillRun(p)
}

// TestHyperShiftLeaseLost: an operator that cannot renew its lease, which is in the management cluster, ends as failed. The next one
// waits for that cluster, and leads when it is back.
func TestHyperShiftLeaseLost(t *testing.T) {
	t.Parallel()
	e := newHosted(t, manila(), options{Before: func(e *env) { e.setConfig(shortElection) }})
	before, p := e.awaitSteadyState(), e.operator
	back := e.stopAPI(e.management, "refuse")
	e.operator = nil // its end is wanted
	code, err := p.wait(soon)
	e.must(err)
	if code == 0 || !strings.Contains(tail(e.log(), 5), "lost the lease") {
		t.Errorf("without its lease the operator ended with code %d, want another and the reason:\n%s", code, tail(e.log(), 5))
	}
	e.startOperator()
	e.mustKeepRunning(outage(t) / 3)
	back()
	e.eventually(recoveryBound, e.isLed)
	e.eventually(recoveryBound, e.available)
	e.mustBeInState(before)
	e.mustReconcileBothSides()
}

// TestHyperShiftBothAway: with OpenShift's durations the lease outlives a short outage of both clusters, and so does the operator.
func TestHyperShiftBothAway(t *testing.T) {
	t.Parallel()
	const renewal = 100 * time.Second // and a little more: after that the lease is lost
	e := newHosted(t, cinder(), options{})
	before, p := e.awaitSteadyState(), e.operator
	management, guest := e.stopAPI(e.management, "refuse"), e.stopAPI(e.guest, "refuse")
	for end := time.Now().Add(outage(t)); time.Now().Before(end); pause(t) {
		if !e.operator.running() {
			e.startOperator()
		}
	}
	management()
	guest()
	e.eventually(recoveryBound, e.available)
	e.mustBeInState(before)
	e.mustReconcileBothSides()
	if outage(t) < renewal && (p != e.operator || !p.running()) {
		t.Error("another process did that")
	}
}

// TestHyperShiftStartsWithoutGuest: an operator that starts while the guest's API server is away waits for it.
func TestHyperShiftStartsWithoutGuest(t *testing.T) {
	t.Parallel()
	e := newHosted(t, cinder(), options{Idle: true})
	back := e.stopAPI(e.guest, "refuse")
	e.startOperator()
	e.mustKeepRunning(outage(t) / 3)
	back()
	e.eventually(recoveryBound, e.available)
	e.mustReconcileBothSides()
}

// TestHyperShiftRotatedKubeconfig: the operator ends well when the file with which it reaches the guest changes, and the next one
// goes on with the new one. The driver is left alone.
func TestHyperShiftRotatedKubeconfig(t *testing.T) {
	t.Parallel()
	eachHosted(t, options{}, func(_ *testing.T, e *hostedEnv) {
		before := e.awaitSteadyState()
		e.must(e.command(e.ctx(), "guest", "rotate-kubeconfig"))
		e.awaitGuestKubeconfig()
		e.awaitEnd(soon)
		e.startOperator()
		e.awaitAvailable()
		e.awaitNoWrites()
		e.mustBeInState(before)
		e.mustReconcileBothSides()
	})
}
