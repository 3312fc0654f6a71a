package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// crashing returns a pod whose container has ended.
func crashing() *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.Labels = "n", "p", map[string]string{"app": "d"}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "csi-driver", RestartCount: 3,
		State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"},
		},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Message: "start\nF1124 12:00:00.123456       1 main.go:7] password=abc is wrong\n",
		}},
	}}
	return pod
}

func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}}
}

func crashingDeployment(available int32) *appsv1.Deployment {
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: selector()}}
	d.Namespace, d.Name, d.Status.AvailableReplicas = "n", "d", available
	return d
}

// newPodReasons returns the reasons of a workload among objects of a cluster.
func newPodReasons(
	workload metav1.Object, objects ...runtime.Object,
) (*podReasons, *kubefake.Clientset, *clocktesting.FakePassiveClock) {
	kube := kubefake.NewClientset(objects...)
	now := clocktesting.NewFakePassiveClock(time.Now())
	get := func() metav1.Object { return workload }
	return &podReasons{kube: kube, clock: now, get: get}, kube, now
}

// mustSay compares the reason and the message of a condition.
func mustSay(
	t *testing.T, r *podReasons, conditionType string, status opv1.ConditionStatus, want string,
) {
	t.Helper()
	c := cluster.NewCondition(conditionType, status, "Deploying", "Waiting")
	r.add(t.Context(), c)
	assert.Check(t, is.Equal(*c.Reason+": "+*c.Message, want), "%s=%s", conditionType, status)
}

const (
	unchanged = "Deploying: Waiting"
	crashes   = "CrashLoopBackOff: Deployment d has too few pods: container csi-driver is in " +
		"CrashLoopBackOff (exit 1): password=*** is wrong"
)

func TestConditionsSayWhyPodsDoNotRun(t *testing.T) {
	t.Parallel()
	r, _, _ := newPodReasons(crashingDeployment(0), crashing())
	mustSay(t, r, "XAvailable", opv1.ConditionFalse, crashes)
	mustSay(t, r, "XProgressing", opv1.ConditionTrue, crashes)
	mustSay(t, r, "XDegraded", opv1.ConditionTrue, unchanged)
	r, _, _ = newPodReasons(crashingDeployment(1), crashing())
	mustSay(t, r, "XProgressing", opv1.ConditionTrue,
		strings.Replace(crashes, "Deployment d has too few pods",
			"The rollout of Deployment d does not end", 1))

	refused := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: selector()}}
	refused.Namespace, refused.Name, refused.Status.DesiredNumberScheduled = "n", "d", 3
	failed := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "e"}, Reason: "FailedCreate",
		Message: `Error creating: pods "d-x7k2p" is forbidden: exceeded quota: pods`,
	}
	r, kube, _ := newPodReasons(refused, failed)
	mustSay(t, r, "XAvailable", opv1.ConditionFalse, "FailedCreate: "+
		"DaemonSet d has too few pods: no more can be created: exceeded quota: pods")
	for _, action := range kube.Actions() {
		fields := action.(clienttesting.ListAction).GetListRestrictions().Fields.String()
		assert.Check(t, !strings.Contains(fields, "reason"), "an end of the problem is not seen")
	}
	failed.Message = `Error creating: pods "d-x7k2p" is forbidden: violates PodSecurity ` +
		`"baseline:latest": host namespaces`
	r, _, _ = newPodReasons(refused, failed)
	mustSay(t, r, "XAvailable", opv1.ConditionFalse, "FailedCreate: DaemonSet d has too few pods: "+
		`no more can be created: violates PodSecurity "baseline:latest": host namespaces. `+
		"Run: kubectl label namespace n --overwrite pod-security.kubernetes.io/enforce=privileged")
	created := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "f"}, Reason: "SuccessfulCreate",
		LastTimestamp: metav1.Now(),
	}
	r, _, _ = newPodReasons(refused, failed, created)
	mustSay(t, r, "XAvailable", opv1.ConditionFalse, unchanged)
}

// Neither a pod that failed earlier nor one that the kubelet has not begun is the cause.
func TestOtherPodsDoNotHideTheCause(t *testing.T) {
	t.Parallel()
	evicted, fresh := crashing(), crashing()
	evicted.Name, evicted.Status = "a", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	fresh.Name, fresh.Status = "b", corev1.PodStatus{Phase: corev1.PodPending}
	r, _, _ := newPodReasons(crashingDeployment(0), evicted, fresh, crashing())
	mustSay(t, r, "XAvailable", opv1.ConditionFalse, crashes)
	r, _, _ = newPodReasons(crashingDeployment(0), fresh)
	mustSay(t, r, "XAvailable", opv1.ConditionFalse, unchanged)
	r, _, _ = newPodReasons(crashingDeployment(0), evicted)
	mustSay(t, r, "XAvailable", opv1.ConditionFalse, "PodFailed: Deployment d has too few pods: "+
		"a pod has failed (Evicted): there is no message")
}

// A container that restarts again and again changes no condition.
func TestReasonOfAContainerIsTheSameInAllItsStates(t *testing.T) {
	t.Parallel()
	ended := crashing().Status.ContainerStatuses[0].LastTerminationState
	ended.Terminated.Message = "F1124 12:59:59.000000       1 main.go:7] password=abc is wrong"
	for _, state := range []corev1.ContainerState{
		ended, {Running: &corev1.ContainerStateRunning{}}, crashing().Status.ContainerStatuses[0].State,
	} {
		pod := crashing()
		pod.Status.ContainerStatuses[0].State = state
		r, _, _ := newPodReasons(crashingDeployment(0), pod)
		mustSay(t, r, "XAvailable", opv1.ConditionFalse, crashes)
	}
}

func TestPodsAreListedOnlyWhileTheyAreMissing(t *testing.T) {
	t.Parallel()
	r, kube, now := newPodReasons(crashingDeployment(0), crashing())
	mustSay(t, r, "XAvailable", opv1.ConditionTrue, unchanged)
	mustSay(t, r, "XProgressing", opv1.ConditionFalse, unchanged)
	assert.Check(t, is.Len(kube.Actions(), 0))
	for range 3 {
		mustSay(t, r, "XAvailable", opv1.ConditionFalse, crashes)
	}
	assert.Check(t, is.Len(kube.Actions(), 1))
	now.SetTime(now.Now().Add(podsInterval))
	refuse(&kube.Fake, "list", "pods", errors.New("RBAC"))
	mustSay(t, r, "XAvailable", opv1.ConditionFalse, unchanged)
	assert.Check(t, is.Len(kube.Actions(), 2))
}

// A scheduler needs some seconds until it says why a pod is Pending.
func TestConditionOfAGuestNamesTheDeploymentOfTheManagementCluster(t *testing.T) {
	t.Parallel()
	fresh := crashing()
	fresh.Status = corev1.PodStatus{Phase: corev1.PodPending}
	r, kube, now := newPodReasons(crashingDeployment(0), fresh)
	r.hosted = true
	const about = "Deployment d in namespace n of the management cluster has too few pods"
	mustSay(t, r, "XAvailable", opv1.ConditionFalse, "Deploying: "+about)
	fresh.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "5 node(s) were unschedulable",
	}}
	_, err := kube.CoreV1().Pods("n").UpdateStatus(t.Context(), fresh, metav1.UpdateOptions{})
	assert.NilError(t, err)
	mustSay(t, r, "XAvailable", opv1.ConditionFalse, "Deploying: "+about)
	now.SetTime(now.Now().Add(emptyInterval))
	mustSay(t, r, "XAvailable", opv1.ConditionFalse,
		"Unschedulable: "+about+": a pod cannot be scheduled: 5 node(s) were unschedulable")
}

// library-go's controller of Deployments updates only Degraded after 15 minutes.
func TestConditionsOfALongRolloutAreUpdated(t *testing.T) {
	t.Parallel()
	r, _, now := newPodReasons(crashingDeployment(0), crashing())
	status := &opv1.OperatorStatus{Conditions: []opv1.OperatorCondition{{
		Type: "XProgressing", Status: opv1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now.Now().Add(-rolloutTimeout - time.Second)),
	}}}
	r.hideDuration("X", status)
	assert.Check(t, status.Conditions[0].LastTransitionTime.Time.Equal(now.Now()), "%v", status)
	mustSay(t, r, "XDegraded", opv1.ConditionFalse, unchanged)
	mustSay(t, r, "XProgressing", opv1.ConditionTrue, crashes)
	mustSay(t, r, "XDegraded", opv1.ConditionFalse,
		"SyncError: The rollout of Deployment d takes longer than 15m0s")
}

// countingController counts its syncs.
type countingController struct {
	factory.Controller

	syncs int
}

func (*countingController) Name() string { return "Counting" }

func (c *countingController) Sync(context.Context, factory.SyncContext) error {
	c.syncs++
	return nil
}

func TestOnlyAnUnsettledWorkloadIsReadEachMinute(t *testing.T) {
	t.Parallel()
	for unsettled, want := range map[bool]int{false: 1, true: int(staticResync / unsettledResync)} {
		synctest.Test(t, func(t *testing.T) {
			f := clustertest.New(t, clustertest.Seed{})
			d := assembledIn(t, f, cinderPlugin())[0]
			f.Start(t)
			inner := &countingController{}
			ctx, cancel := context.WithTimeout(t.Context(), staticResync-time.Second)
			defer cancel()
			d.workloadController(inner, "X", &podReasons{unsettled: unsettled}, d.operator, nil).Run(ctx, 1)
			assert.Check(t, is.Equal(want, inner.syncs), "unsettled: %v", unsettled)
		})
	}
}

// What admission says does not name the object.
func TestErrorsOfWorkloadsNameThem(t *testing.T) {
	t.Parallel()
	r := &podReasons{object: "DaemonSet ns/node"}
	denied := apierrors.NewApplyConflict(nil, "a webhook denied the request")
	assert.Check(t, is.Error(r.named(denied), "DaemonSet ns/node: a webhook denied the request"))
	assert.Check(t, apierrors.IsConflict(r.named(denied)))
	named := fmt.Errorf("writing the status of X: %w", denied)
	assert.Check(t, r.named(named) == named && r.named(nil) == nil) //nolint:errorlint // the same
}
