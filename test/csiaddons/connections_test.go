//go:build integration

package csiaddons

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// TestConnections checks to which sidecars the controller connects, and what it deletes.
func TestConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}})
	w.addDriverNamespace("other-drivers")
	w.startController("--driver-namespaces=cinder="+driverNamespace+",ceph="+driverNamespace+
		",open="+driverNamespace+",other=other-drivers", "--insecure-drivers=ceph",
		"--plaintext-drivers=open")
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), nodeDriver("cinder"))
	found := w.awaitSidecar("cinder", connected)
	if got := found.Status.Capabilities; len(got) != 2 || got[0] != "reclaim_space.ONLINE" {
		w.Errorf("the driver has the capabilities %v", got)
	}

	// Sidecars as those of the CSI-Addons for Ceph: no audience, or no TLS.
	w.bindDriverRole(driverNamespace, "csi-addons-unverified")
	w.addSidecar(w.addPod(driverNamespace, "ceph", "worker-1"), nodeDriver("ceph"),
		"--token-audience=")
	w.awaitSidecar("ceph", connected)
	w.addSidecar(w.addPod(driverNamespace, "open", "worker-1"), nodeDriver("open"),
		"--enable-auth=false")
	w.awaitSidecar("open", connected)

	// Sidecars of a tenant and of another driver, which would get calls for the driver's volumes.
	w.addSidecar(w.addPod("tenant", "plugin", "worker-1"), nodeDriver("cinder"))
	w.addSidecar(w.addPod("other-drivers", "plugin", "worker-1"), nodeDriver("cinder"))
	w.awaitReason("cinder", "other-drivers", connection.ReasonNotAllowed)

	w.checkImpostor(found)
	w.checkDuplicate()
	w.checkDead()
	w.awaitSidecar("cinder", func(n *v1alpha1.CSIAddonsNode) bool {
		return n.Namespace == "tenant" && n.Status.State == ""
	})
}

// checkDuplicate creates a second CSIAddonsNode for a sidecar, and deletes the first.
func (w *world) checkDuplicate() {
	w.Helper()
	first := w.awaitSidecar("ceph", connected)
	second := &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: first.Namespace, Name: "zz-second", OwnerReferences: first.OwnerReferences,
		},
		Spec: first.Spec,
	}
	w.create(second)
	w.awaitReason("ceph", driverNamespace, connection.ReasonDuplicate)
	w.must(w.client.Delete(w.Context(), second))
}

// awaitReason waits for a CSIAddonsNode in a namespace that has the state Failed for a reason.
func (w *world) awaitReason(driverOf, namespace, reason string) {
	w.Helper()
	w.awaitSidecar(driverOf, func(n *v1alpha1.CSIAddonsNode) bool {
		return n.Namespace == namespace && n.Status.Reason == reason &&
			n.Status.State == v1alpha1.CSIAddonsNodeFailed
	})
}

// checkImpostor creates a copy of a CSIAddonsNode for another pod, with the key of no sidecar.
func (w *world) checkImpostor(original *v1alpha1.CSIAddonsNode) {
	w.Helper()
	impostor := sidecarObject("cinder", w.addPod(driverNamespace, "other", "worker-1"), "worker-1")
	impostor.Annotations[v1alpha1.CertificatePinAnnotation] = "sha256:" + strings.Repeat("0", 64)
	_, port, _ := strings.Cut(original.Spec.Driver.EndPoint, "."+driverNamespace)
	impostor.Spec.Driver.EndPoint = "pod://other." + driverNamespace + port
	w.create(impostor)
	w.awaitSidecar("cinder", func(n *v1alpha1.CSIAddonsNode) bool {
		return n.Name == impostor.Name && n.Status.Reason == connection.ReasonUnreachable &&
			strings.Contains(n.Status.Message, "has the pin")
	})
}

// ofPod returns a function that accepts a CSIAddonsNode only if it names a pod.
func ofPod(pod string, accept func(*v1alpha1.CSIAddonsNode) bool,
) func(*v1alpha1.CSIAddonsNode) bool {
	return func(n *v1alpha1.CSIAddonsNode) bool {
		return len(n.OwnerReferences) > 0 && n.OwnerReferences[0].Name == pod && accept(n)
	}
}

// checkDead creates CSIAddonsNodes that Kubernetes does not delete with their pods: nobody owns
// them, and they have the finalizer of another controller.
func (w *world) checkDead() {
	w.Helper()
	w.addNode("worker-3")
	pods := []*corev1.Pod{
		w.addPod(driverNamespace, "deleted", "worker-1"),
		w.addPod(driverNamespace, "moved", "worker-3"),
	}
	var dead []*v1alpha1.CSIAddonsNode
	for _, pod := range pods {
		node := sidecarObject("cinder", pod, pod.Spec.NodeName)
		node.Finalizers, node.OwnerReferences = []string{v1alpha1.CSIAddonsNodeFinalizer}, nil
		w.create(node)
		w.awaitSidecar("cinder", func(n *v1alpha1.CSIAddonsNode) bool {
			return n.Name == node.Name && n.Status.Reason == connection.ReasonNotOwned
		})
		dead = append(dead, node)
	}
	w.removePod(pods[0])
	w.must(w.client.Delete(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-3"}}))
	for _, node := range dead {
		w.awaitGone(node)
	}
}
