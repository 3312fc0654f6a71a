//go:build integration && long

package csiaddons

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
)

// TestReclaimSpaceJobSurvives runs jobs through failures: retries, a deletion, a restart of the
// controller, and a lost connection.
func TestReclaimSpaceJobSurvives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	entered := make(chan struct{}, 10)
	cancelled := make(chan struct{}, 10)
	var mode atomic.Value // what the driver does
	mode.Store("fail")
	block := func(ctx context.Context) (usage, error) {
		switch mode.Load() {
		case "fail":
			return usage{}, status.Error(codes.Aborted, "in flight")
		case "block":
			entered <- struct{}{}
			<-ctx.Done()
			cancelled <- struct{}{}
			return usage{}, status.FromContextError(ctx.Err()).Err()
		default:
			return usage{pre: 20, post: 5}, nil
		}
	}
	d := &fakeDriver{
		name: "cinder", services: services{nodeService, controllerService},
		reclaims: reclaims{online, offline}, onNode: answers(30, 20, nil), inController: block,
	}
	pod := w.addPod(driverNamespace, "plugin", "worker-1")
	stopSidecar := w.addSidecar(pod, d)
	w.addVolume("data", "cinder", "worker-1")
	args := []string{"--driver-namespaces=cinder=" + driverNamespace}
	stop := w.startController(args...)

	retried := newJob("retried", "data")
	retried.Spec.BackOffLimit = ptr.To(int32(1))
	w.create(retried)
	w.awaitJob("retried", func(job *v1alpha1.ReclaimSpaceJob) bool {
		return job.Status.Retries == 1 && job.Status.Reason == controller.ReasonRetrying
	})
	job := w.awaitEnd("retried")
	if job.Status.Reason != controller.ReasonBackOffLimit || d.controllerCalls.Load() != 2 {
		t.Errorf("the job ended with %s after %d calls: %s", job.Status.Reason,
			d.controllerCalls.Load(), job.Status.Message)
	}
	if got := d.nodeCalls.Load(); got != 1 {
		t.Errorf("a retry of the controller service repeats the call on the node: %d calls", got)
	}

	mode.Store("block")
	w.addJob("deleted", "data")
	w.receive(entered, "the call of the job")
	w.must(w.client.Delete(t.Context(), &v1alpha1.ReclaimSpaceJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "deleted"},
	}))
	w.receive(cancelled, "the cancellation of the call of a deleted job")

	w.addJob("restarted", "data")
	w.receive(entered, "the call of the job")
	nodeCalls := d.nodeCalls.Load()
	stop()
	w.receive(cancelled, "the cancellation of a call of a controller that ends")
	mode.Store("succeed")
	stop = w.startController(args...)
	job = w.awaitEnd("restarted")
	if job.Status.Result != v1alpha1.OperationSucceeded || job.Status.Retries != 0 ||
		job.Status.ReclaimedSpace.String() != "25" {
		t.Errorf("the job ended with %+v", job.Status)
	}
	if got := d.nodeCalls.Load(); got != nodeCalls {
		t.Errorf("the next process repeats a completed call: %d calls, want %d", got, nodeCalls)
	}

	stopSidecar()
	w.awaitSidecar("cinder", func(node *v1alpha1.CSIAddonsNode) bool {
		return node.Status.State == v1alpha1.CSIAddonsNodeRetrying
	})
	w.addJob("waits", "data")
	w.awaitJob("waits", func(job *v1alpha1.ReclaimSpaceJob) bool {
		running := meta.FindStatusCondition(job.Status.Conditions, controller.ConditionRunning)
		return running != nil && running.Reason == controller.ReasonNoSidecar
	})
	w.addSidecar(pod, d)
	if job = w.awaitEnd("waits"); job.Status.Result != v1alpha1.OperationSucceeded ||
		job.Status.Retries != 0 {
		t.Errorf("the job ended with %+v", job.Status)
	}
	stop()
}

// receive waits for a message.
func (w *world) receive(from <-chan struct{}, what string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), soon)
	defer cancel()
	select {
	case <-from:
	case <-ctx.Done():
		w.Fatalf("waited %v for %s", soon, what)
	}
}

// TestReclaimSpaceCronJob waits for the jobs of a ReclaimSpaceCronJob that is due each minute.
func TestReclaimSpaceCronJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), nodeDriver("cinder"))
	w.addVolume("data", "cinder", "worker-1")
	c := &v1alpha1.ReclaimSpaceCronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "often"},
		Spec: v1alpha1.ReclaimSpaceCronJobSpec{
			Schedule: "* * * * *",
			JobTemplate: v1alpha1.ReclaimSpaceJobTemplateSpec{Spec: v1alpha1.ReclaimSpaceJobSpec{
				Target: v1alpha1.TargetSpec{PersistentVolumeClaim: "data"},
			}},
		},
	}
	w.create(c)
	w.startController("--driver-namespaces=cinder="+driverNamespace, "--cronjob-stagger-window=0")
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(c), c)
		return c.Status.LastSuccessfulTime != nil && c.Status.Active == nil, err
	})
	// A minute may begin at any time, so there may be a job of a later minute.
	var jobs v1alpha1.ReclaimSpaceJobList
	w.must(w.client.List(t.Context(), &jobs))
	minutes := map[string]v1alpha1.ReclaimSpaceJob{}
	for _, job := range jobs.Items {
		minutes[job.Annotations[v1alpha1.ScheduledAtAnnotation]] = job
	}
	want := c.Status.LastScheduleTime.UTC().Format(time.RFC3339)
	job, ok := minutes[want]
	if !ok || len(minutes) != len(jobs.Items) || !metav1.IsControlledBy(&job, c) {
		t.Errorf("the jobs are %+v, want one for each minute, and one for %s", jobs.Items, want)
	}
	w.must(w.client.Delete(t.Context(), c))
	w.awaitGone(&job)
}
