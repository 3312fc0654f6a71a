//go:build integration && long

package csiaddons

import (
	"context"
	"testing"

	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
)

// TestReclaimSpaceJobSurvives runs jobs through a deletion, and a lost connection.
func TestReclaimSpaceJobSurvives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, entered, cancelled := hangingDriver()
	pod := w.addPod(driverNamespace, "plugin", "worker-1")
	stopSidecar := w.addSidecar(pod, d)
	w.addVolume("data", "cinder", "worker-1")
	w.startController("--driver-namespaces=cinder=" + driverNamespace)

	w.addJob("deleted", "data")
	w.receive(entered, "the call of the job")
	w.must(w.client.Delete(t.Context(), &v1alpha1.ReclaimSpaceJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "deleted"},
	}))
	w.receive(cancelled, "the cancellation of the call of a deleted job")

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
	if job := w.awaitEnd("waits"); job.Status.Result != v1alpha1.OperationSucceeded ||
		job.Status.Retries != 0 {
		t.Errorf("the job ended with %+v", job.Status)
	}
}

// hangingDriver returns a driver that reclaims 10 bytes on the node, and 15 in the controller
// service, whose first call does not end before it is cancelled.
func hangingDriver() (d *fakeDriver, entered, cancelled chan struct{}) {
	entered, cancelled = make(chan struct{}, 10), make(chan struct{}, 10)
	d = &fakeDriver{
		name: "cinder", services: services{nodeService, controllerService},
		reclaims: reclaims{online, offline}, onNode: answers(30, 20, nil),
	}
	d.inController = func(ctx context.Context) (usage, error) {
		if d.controllerCalls.Load() > 1 {
			return usage{pre: 20, post: 5}, nil
		}
		entered <- struct{}{}
		<-ctx.Done()
		cancelled <- struct{}{}
		return usage{}, status.FromContextError(ctx.Err()).Err()
	}
	return d, entered, cancelled
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
