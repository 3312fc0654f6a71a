//go:build integration && long

package csiaddons

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
)

// TestReclaimSpaceJobSurvives runs jobs through a deletion, a restart of the controller, and a lost
// connection.
func TestReclaimSpaceJobSurvives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	entered := make(chan struct{}, 10)
	cancelled := make(chan struct{}, 10)
	var mode atomic.Value // what the driver does
	mode.Store("block")
	block := func(ctx context.Context) (usage, error) {
		switch mode.Load() {
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
	job := w.awaitEnd("restarted")
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
