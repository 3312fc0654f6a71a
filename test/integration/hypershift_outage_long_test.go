//go:build integration && long

package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
)

const (
	// recoveryBound bounds the recovery of an operator from an API server's outage: its informers may
	// have just begun a long back-off.
	recoveryBound = time.Minute
	outage        = 30 * time.Second
)

// driverPods returns all pods of the driver in both clusters, with their restarts, by UID.
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
	if len(found) < len(e.subject.Workloads) {
		return nil, fmt.Errorf("only these pods exist: %v", slices.Sorted(maps.Values(found)))
	}
	return found, nil
}

// steadyState is the state that an outage must not change.
type steadyState struct {
	since     auditMark
	workloads map[string]workload
	pods      map[string]string
}

// awaitSteadyState waits until the driver is available and the operator is idle.
func (e *env) awaitSteadyState() steadyState {
	e.t.Helper()
	e.awaitAvailable()
	since := e.awaitNoWrites()
	pods, err := e.driverPods()
	e.must(err)
	return steadyState{since, e.workloads(), pods}
}

// mustBeInState checks that the operator deleted nothing, and that no pod template changed and no
// pod restarted.
func (e *env) mustBeInState(before steadyState) {
	e.t.Helper()
	e.expectNone("the operator deleted", e.requests(before.since, deletions))
	e.must(e.hasRolledOut(before.workloads))
	for name, was := range before.workloads {
		now, err := e.workload(name)
		e.must(err)
		if diff := cmp.Diff(was.Pod, now.Pod) +
			cmp.Diff(was.TemplateHashes, now.TemplateHashes); diff != "" {
			e.t.Errorf("the pod template of %s changed:\n%s", name, diff)
		}
	}
	pods, err := e.driverPods()
	e.must(err)
	assert.Check(e.t, is.DeepEqual(before.pods, pods), "pods of the driver were replaced or restarted")
}

// mustReconcileBothSides checks that the operator reacts to changes in both clusters and in the
// cloud. The name must differ from those of other outages of the test.
func (e *env) mustReconcileBothSides(after string) {
	e.t.Helper()
	e.patchControlPlane(`{"labels":{"after":"` + after + `"}}`)
	e.must(e.guest.kube.RbacV1().ClusterRoleBindings().
		Delete(e.ctx(), e.provisionerBinding(), metav1.DeleteOptions{}))
	if e.subject.isManila() {
		e.addType(after)
	}
	e.eventually(recoveryBound, func() error {
		d, err := e.deployment()
		if err != nil {
			return err
		}
		if d.Spec.Template.Labels["after"] != after {
			return errors.New("the Deployment does not follow the HostedControlPlane")
		}
		_, err = e.guest.kube.RbacV1().ClusterRoleBindings().
			Get(e.ctx(), e.provisionerBinding(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if classes, err := e.classes(); err != nil || !e.subject.isManila() {
			return err
		} else if _, found := classes["csi-manila-"+after]; !found {
			return errors.New("there is no StorageClass for the new type")
		}
		return nil
	})
	e.eventually(recoveryBound, e.available)
}

// provisionerBinding returns the name of a ClusterRoleBinding of the driver.
func (e *env) provisionerBinding() string {
	if e.subject.isManila() {
		return provisionerBinding
	}
	return "openstack-cinder-csi-main-provisioner-binding"
}

// mustKeepRunning checks that the operator's process runs throughout the time.
func (e *env) mustKeepRunning(d time.Duration) {
	e.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); pause(e.t) {
		assert.Assert(e.t, e.operator.Running(), "the operator ended: %v", e.operator.Err())
	}
}

// stopAPI stops the API server of a cluster. The returned function or the cleanup starts it.
func (e *hostedEnv) stopAPI(c *cluster, how controlplane.How) (start func()) {
	e.t.Helper()
	side := flavour.Side(c.name)
	e.must(e.running.StopAPI(e.ctx(), side, guestName, how))
	stopped := true
	e.afterwards(func(ctx context.Context) error {
		if !stopped {
			return nil
		}
		return e.running.StartAPI(ctx, side, guestName)
	})
	return func() {
		e.t.Helper()
		began := time.Now()
		e.must(e.running.StartAPI(e.ctx(), side, guestName))
		stopped = false
		e.allowWhileStarting(c, began)
	}
}

// allowWhileStarting accepts refused requests for a moment: a starting API server has not read all
// tokens and RBAC objects yet.
func (e *hostedEnv) allowWhileStarting(c *cluster, began time.Time) {
	before, until := e.allowed, time.Now().Add(30*time.Second)
	e.allowed = func(r request) bool {
		return before != nil && before(r) ||
			r.Cluster == c && r.Time.After(began) && r.Time.Before(until)
	}
}

// TestHyperShiftSurvivesOutages uses both operators for different outages.
func TestHyperShiftSurvivesOutages(t *testing.T) {
	t.Parallel()
	t.Run("manila", func(t *testing.T) {
		t.Parallel()
		e := newHosted(t, manila(), options{})
		e.parts(
			part{"WaitsForGuestAPI", e.waitsForGuestAPI},
			part{"SurvivesHijackedAPIGroup", e.survivesHijackedAPIGroup},
		)
	})
	t.Run("cinder", func(t *testing.T) {
		t.Parallel()
		e := newHosted(t, cinder(), options{Idle: true})
		e.parts(
			part{"StartsWithoutGuestAPI", e.startsWithoutGuestAPI},
			part{"SurvivesShortOutageOfBothAPIs", e.survivesShortOutageOfBothAPIs},
			part{"RestartsForNewKubeconfig", e.restartsForNewKubeconfig},
		)
	})
}

// waitsForGuestAPI checks that an outage of the guest cluster's API server deletes nothing and
// restarts no pod, and that the same process then reconciles changes.
func (e *hostedEnv) waitsForGuestAPI() {
	before, p := e.awaitSteadyState(), e.operator
	for _, how := range []controlplane.How{controlplane.Refuse, controlplane.Hang} {
		back := e.stopAPI(e.guest, how)
		e.mustKeepRunning(outage / 2)
		back()
	}
	e.eventually(recoveryBound, e.available)
	e.mustBeInState(before)
	e.mustReconcileBothSides("guest")
	e.mustStillRun(p)
}

// survivesShortOutageOfBothAPIs checks that OpenShift's Lease durations outlast the outage.
func (e *hostedEnv) survivesShortOutageOfBothAPIs() {
	before, p := e.awaitSteadyState(), e.operator
	management := e.stopAPI(e.management, controlplane.Refuse)
	guest := e.stopAPI(e.guest, controlplane.Refuse)
	e.mustKeepRunning(outage)
	management()
	guest()
	e.eventually(recoveryBound, e.available)
	e.mustBeInState(before)
	e.mustReconcileBothSides("both")
	e.mustStillRun(p)
}

func (e *hostedEnv) startsWithoutGuestAPI() {
	back := e.stopAPI(e.guest, controlplane.Refuse)
	e.startOperator()
	e.mustKeepRunning(outage / 3)
	back()
	e.eventually(recoveryBound, e.available)
	e.mustReconcileBothSides("start")
}

// restartsForNewKubeconfig checks that the driver does not change.
func (e *hostedEnv) restartsForNewKubeconfig() {
	before := e.awaitSteadyState()
	e.must(e.running.RotateGuestKubeconfig(e.ctx(), guestName))
	e.awaitGuestKubeconfig(recoveryBound) // after an outage, the watch of the volume backs off, too
	e.awaitEnd()
	e.startOperator()
	e.awaitAvailable()
	e.awaitNoWrites()
	e.mustBeInState(before)
	e.mustReconcileBothSides("kubeconfig")
}
