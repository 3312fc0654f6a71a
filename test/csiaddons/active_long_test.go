//go:build integration && long

package csiaddons

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

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
	ended, _ := w.runController(w.config, args...)
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
	select {
	case err := <-ended:
		assert.Check(w, is.ErrorContains(err, "it may read namespace unbound"))
	case <-time.After(soon):
		w.Fatalf("the controller runs for %v although it must restart", soon)
	}
	w.addSidecar(w.addPod("unbound", "plugin", "worker-1"), nodeDriver("manila"))
	w.startController(args...)
	if job := w.awaitEnd("waiting"); job.Status.Result != v1alpha1.OperationSucceeded {
		w.Errorf("the job that waited for the namespace ended with %+v", job.Status)
	}
	w.awaitSidecar("cinder", connected)
}
