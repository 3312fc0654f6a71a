//go:build integration

package csiaddons

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
)

// TestNamespaceWithoutRoleBinding runs the controller for three drivers: the namespace of one does
// not exist, and that of another has no RoleBinding. The controller serves the third one, and the
// others when it may.
func TestNamespaceWithoutRoleBinding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addNode("worker-1")
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unbound"}})
	newDriver := func(name string) *fakeDriver {
		return &fakeDriver{
			name: name, services: services{nodeService}, reclaims: reclaims{online},
			onNode: answers(30, 20, nil),
		}
	}
	w.startController("--driver-namespaces=cinder="+driverNamespace, "--driver-namespaces=new=created",
		"--driver-namespaces=manila=unbound")
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), newDriver("cinder"))
	w.awaitActive(corev1.ConditionTrue, controller.ReasonForbidden)
	w.awaitEvent(systemNamespace, w.pod, "in the namespaces created, unbound, so")
	w.awaitSidecar("cinder", connected)
	w.addVolume("data", "cinder", "worker-1")
	w.addJob("served", "data", v1alpha1.ReclaimSpaceJobSpec{})
	if job := w.awaitEnd("served"); job.Status.Result != v1alpha1.OperationSucceeded {
		t.Errorf("the job of a served namespace ended with %+v", job.Status)
	}
	w.addVolume("other", "manila", "worker-1")
	w.addJob("waiting", "other", v1alpha1.ReclaimSpaceJobSpec{})

	w.bindDriverRole("unbound")
	w.addSidecar(w.addPod("unbound", "plugin", "worker-1"), newDriver("manila"))
	w.awaitSidecar("manila", connected)
	w.awaitEvent(systemNamespace, w.pod, "in the namespaces created, so")
	if job := w.awaitEnd("waiting"); job.Status.Result != v1alpha1.OperationSucceeded {
		t.Errorf("the job that waited for the namespace ended with %+v", job.Status)
	}

	w.addDriverNamespace("created")
	w.awaitActive(corev1.ConditionTrue, controller.ReasonNoOther)
	w.addSidecar(w.addPod("created", "plugin", "worker-1"), newDriver("new"))
	w.awaitSidecar("new", connected)
	w.awaitSidecar("cinder", connected)
}

// TestNoNamespaceWithRoleBinding checks that the controller waits until it may read the namespace
// of its only driver.
func TestNoNamespaceWithRoleBinding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addNode("worker-1")
	w.startController("--driver-namespaces=cinder=created")
	w.awaitActive(corev1.ConditionFalse, controller.ReasonForbidden)
	w.addDriverNamespace("created")
	w.awaitActive(corev1.ConditionTrue, controller.ReasonNoOther)
	w.addSidecar(w.addPod("created", "plugin", "worker-1"),
		&fakeDriver{name: "cinder", services: services{nodeService}})
	w.awaitSidecar("cinder", connected)
}
