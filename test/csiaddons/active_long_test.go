//go:build integration && long

package csiaddons

import (
	"context"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// runController starts the controller. The channel receives how it ends.
func (w *world) runController(args ...string) <-chan error {
	w.Helper()
	c, ended := w.newController(w.config, args...), make(chan error, 1)
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() { ended <- c.Run(ctx) })
	w.Cleanup(running.Wait)
	w.Cleanup(cancel)
	return ended
}

// awaitExit waits until the controller ends with an error; "" means none.
func (w *world) awaitExit(ended <-chan error, want string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), soon)
	defer cancel()
	select {
	case err := <-ended:
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			w.Errorf("the controller ends with %v, want %q", err, want)
		}
	case <-ctx.Done():
		w.Fatalf("the controller runs for %v although it must restart", soon)
	}
}

// TestNamespaceWithoutRoleBinding runs the controller for three drivers: the namespace of one does
// not exist, and that of another has no RoleBinding. The controller serves the third one, and ends
// when it may serve another one.
func TestNamespaceWithoutRoleBinding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unbound"}})
	args := []string{
		"--driver-namespaces=cinder=" + driverNamespace, "--driver-namespaces=new=created",
		"--driver-namespaces=manila=unbound",
	}
	ended := w.runController(args...)
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), nodeDriver("cinder"))
	w.awaitSidecar("cinder", connected)
	w.addVolume("data", "cinder", "worker-1")
	w.addJob("served", "data")
	if job := w.awaitEnd("served"); job.Status.Result != v1alpha1.OperationSucceeded {
		w.Errorf("the job of a served namespace ended with %+v", job.Status)
	}
	w.addVolume("other", "manila", "worker-1")
	w.addJob("waiting", "other")

	w.bindDriverRole("unbound", managerAccount)
	w.awaitExit(ended, "it may read namespace unbound")
	w.addSidecar(w.addPod("unbound", "plugin", "worker-1"), nodeDriver("manila"))
	w.startController(args...)
	if job := w.awaitEnd("waiting"); job.Status.Result != v1alpha1.OperationSucceeded {
		w.Errorf("the job that waited for the namespace ended with %+v", job.Status)
	}
	w.awaitSidecar("cinder", connected)
}
