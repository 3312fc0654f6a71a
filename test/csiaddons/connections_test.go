//go:build integration

package csiaddons

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// TestConnections checks to which sidecars the controller connects, and which CSIAddonsNodes it
// deletes.
func TestConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addNode("worker-2")
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}})
	w.addDriverNamespace("other-drivers")
	w.startController("--driver-namespaces=cinder="+driverNamespace+",ceph="+driverNamespace+
		",open="+driverNamespace+",one="+driverNamespace+",two="+driverNamespace+
		",other=other-drivers", "--insecure-drivers=ceph", "--plaintext-drivers=open")
	w.part("drivers share a pod", (*world).checkSharedPod)
	w.part("only sidecars of drivers are connected", (*world).checkConnections)
}

// checkConnections adds sidecars and CSIAddonsNodes of all kinds.
func (w *world) checkConnections() {
	pod := w.addPod(driverNamespace, "plugin", "worker-1")
	w.addSidecar(pod, nodeDriver("cinder"))
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

	// Sidecars of a tenant and of another driver, which would get the calls for the volumes of the
	// driver.
	w.addSidecar(w.addPod("tenant", "plugin", "worker-1"), nodeDriver("cinder"))
	w.addSidecar(w.addPod("other-drivers", "plugin", "worker-1"), nodeDriver("cinder"))
	w.awaitReason("cinder", "other-drivers", connection.ReasonNotAllowed)

	w.checkImpostors(found, pod)
	w.checkDuplicate()
	w.checkReplacedPod()
	w.checkDead()
	w.awaitSidecar("cinder", func(n *v1alpha1.CSIAddonsNode) bool {
		return n.Namespace == "tenant" && n.Status.State == ""
	})
}

// checkDuplicate creates a second CSIAddonsNode for a sidecar whose name says nothing, and deletes
// the first.
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

// checkImpostors creates copies of a CSIAddonsNode that name what does not belong to it.
func (w *world) checkImpostors(original *v1alpha1.CSIAddonsNode, pod *corev1.Pod) {
	w.Helper()
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
	other := w.addPod(driverNamespace, "other", "worker-1")
	otherOwner := []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Pod", Name: other.Name, UID: other.UID},
	}
	proper := wire.ObjectName(other.Name, "cinder")
	otherEndpoint := "pod://other." + driverNamespace + ":9070"
	wrongPin := "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for _, one := range []struct {
		name, endpoint, pin, node string
		owners                    []metav1.OwnerReference
		state                     v1alpha1.CSIAddonsNodeState
		reason                    string
	}{
		{
			"no-owner", original.Spec.Driver.EndPoint, wrongPin, "worker-1", otherOwner,
			v1alpha1.CSIAddonsNodeFailed, connection.ReasonNotOwned,
		},
		{
			"no-pin", original.Spec.Driver.EndPoint, "", "worker-1", owner,
			v1alpha1.CSIAddonsNodeFailed, connection.ReasonNoPin,
		},
		{
			"second", original.Spec.Driver.EndPoint, wrongPin, "worker-1", owner,
			v1alpha1.CSIAddonsNodeFailed, connection.ReasonWrongName,
		},
		{
			proper, otherEndpoint, wrongPin, "worker-2", otherOwner,
			v1alpha1.CSIAddonsNodeFailed, connection.ReasonWrongNode,
		},
		{
			proper, otherEndpoint, wrongPin, "worker-1", otherOwner,
			v1alpha1.CSIAddonsNodeRetrying, connection.ReasonUnreachable,
		},
		{
			"other-namespace", "pod://plugin.tenant:9070", wrongPin, "worker-1", owner,
			v1alpha1.CSIAddonsNodeFailed, connection.ReasonBadEndpoint,
		},
		{
			"address", "10.0.0.1:9070", wrongPin, "worker-1", owner,
			v1alpha1.CSIAddonsNodeFailed, connection.ReasonBadEndpoint,
		},
	} {
		impostor := &v1alpha1.CSIAddonsNode{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: driverNamespace, Name: one.name, OwnerReferences: one.owners,
			},
			Spec: *original.Spec.DeepCopy(),
		}
		impostor.Spec.Driver.EndPoint, impostor.Spec.Driver.NodeID = one.endpoint, one.node
		if one.pin != "" {
			impostor.Annotations = map[string]string{v1alpha1.CertificatePinAnnotation: one.pin}
		}
		w.create(impostor)
		w.awaitSidecar("cinder", func(n *v1alpha1.CSIAddonsNode) bool {
			return n.Name == one.name && n.Status.Reason == one.reason && n.Status.State == one.state
		})
		w.must(w.client.Delete(w.Context(), impostor))
	}
}

// checkReplacedPod replaces a pod by one with the same name, as a StatefulSet does.
func (w *world) checkReplacedPod() {
	w.Helper()
	pod := w.addPod(driverNamespace, "replaced", "worker-1")
	stop := w.addSidecar(pod, nodeDriver("cinder"))
	before := w.awaitSidecar("cinder", ofPod("replaced", connected))
	stop()
	w.removePod(pod)
	pod = w.addPod(driverNamespace, "replaced", "worker-2")
	w.addSidecar(pod, nodeDriver("cinder"))
	after := w.awaitSidecar("cinder", ofPod("replaced", func(n *v1alpha1.CSIAddonsNode) bool {
		return connected(n) && n.Spec.Driver.NodeID == "worker-2"
	}))
	if before.UID == after.UID {
		w.Errorf("the new pod on another node uses the CSIAddonsNode of the previous pod")
	}
}

// ofPod returns a function that accepts a CSIAddonsNode only if it names a pod.
func ofPod(pod string, accept func(*v1alpha1.CSIAddonsNode) bool,
) func(*v1alpha1.CSIAddonsNode) bool {
	return func(n *v1alpha1.CSIAddonsNode) bool {
		return len(n.OwnerReferences) > 0 && n.OwnerReferences[0].Name == pod && accept(n)
	}
}

// checkDead creates CSIAddonsNodes that Kubernetes does not delete with their pods: their owner
// lives on, and they have the finalizer of another controller.
func (w *world) checkDead() {
	w.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: driverNamespace, Name: "owner",
	}}
	w.create(config)
	w.addNode("worker-3")
	pods := map[string]*corev1.Pod{
		"deleted": w.addPod(driverNamespace, "deleted", "worker-1"),
		"moved":   w.addPod(driverNamespace, "moved", "worker-3"),
		"never":   nil,
	}
	for name := range pods {
		w.create(&v1alpha1.CSIAddonsNode{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: driverNamespace, Name: name,
				Finalizers: []string{v1alpha1.CSIAddonsNodeFinalizer},
				OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "v1", Kind: "ConfigMap", Name: config.Name, UID: config.UID},
				},
			},
			Spec: v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{
				Name: "cinder", NodeID: map[bool]string{true: "worker-3", false: "worker-1"}[name == "moved"],
				EndPoint: "pod://" + name + "." + driverNamespace + ":9070",
			}},
		})
	}
	w.awaitSidecar("cinder", func(n *v1alpha1.CSIAddonsNode) bool {
		return n.Name == "moved" && n.Status.State == v1alpha1.CSIAddonsNodeFailed
	})
	w.removePod(pods["deleted"])
	w.must(w.client.Delete(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-3"}}))
	for name := range pods {
		w.awaitGone(&v1alpha1.CSIAddonsNode{
			ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: name},
		})
	}
}

// checkSharedPod runs two drivers in one pod, and another pod of one of them on the same node. Each
// has a connection of its own: while one is lost, jobs use the others.
func (w *world) checkSharedPod() {
	one, two, replica := nodeDriver("one"), nodeDriver("two"), nodeDriver("two")
	pod := w.addPod(driverNamespace, "shared", "worker-1")
	w.addSidecar(pod, one)
	stop := w.addSidecar(pod, two)
	w.addSidecar(w.addPod(driverNamespace, "shared-replica", "worker-1"), replica)
	w.awaitSidecar("one", ofPod("shared", connected))
	before := w.awaitSidecar("two", ofPod("shared", connected))
	w.awaitSidecar("two", ofPod("shared-replica", connected))

	stop()
	w.awaitSidecar("two", ofPod("shared", func(n *v1alpha1.CSIAddonsNode) bool {
		return n.Status.State == v1alpha1.CSIAddonsNodeRetrying
	}))
	for _, name := range []string{"one", "two"} {
		w.addVolume(name, name, "worker-1")
		w.addJob(name, name)
		if job := w.awaitEnd(name); job.Status.Result != v1alpha1.OperationSucceeded {
			w.Errorf("the job of driver %s ended with %+v", name, job.Status)
		}
	}
	if a, b, c := one.nodeCalls.Load(), two.nodeCalls.Load(), replica.nodeCalls.Load(); a != 1 ||
		b != 0 || c != 1 {
		w.Errorf("the drivers got %d, %d and %d calls, want 1, 0 and 1", a, b, c)
	}

	// An outage does not delete the CSIAddonsNode.
	w.addSidecar(pod, two)
	after := w.awaitSidecar("two", ofPod("shared", connected))
	if before.UID != after.UID {
		w.Errorf("the CSIAddonsNode %s was replaced", after.Name)
	}
}
