//go:build integration

package csiaddons

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/guard"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/node"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// TestConnections checks to which sidecars the controller connects, and which CSIAddonsNodes it
// deletes.
func TestConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addNode("worker-1")
	w.addNode("worker-2")
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}})
	w.addDriverNamespace("other-drivers")
	newDriver := func(name string) *fakeDriver {
		return &fakeDriver{name: name, services: services{nodeService}, reclaims: reclaims{online}}
	}
	w.startController("--driver-namespaces=cinder="+driverNamespace+",ceph="+driverNamespace+
		",open="+driverNamespace+",other=other-drivers", "--insecure-drivers=ceph",
		"--plaintext-drivers=open")

	pod := w.addPod(driverNamespace, "plugin", "worker-1")
	w.addSidecar(pod, newDriver("cinder"))
	found := w.awaitSidecar("cinder", connected)
	if got := found.Status.Capabilities; len(got) != 2 || got[0] != "reclaim_space.ONLINE" {
		t.Errorf("the driver has the capabilities %v", got)
	}

	// Sidecars as those of the CSI-Addons for Ceph: no audience, or no TLS.
	w.addSidecar(w.addPod(driverNamespace, "ceph", "worker-1"), newDriver("ceph"),
		"--token-audience=", "--allowed-service-accounts="+systemNamespace+"/csi-addons-unverified")
	w.awaitSidecar("ceph", connected)
	w.addSidecar(w.addPod(driverNamespace, "open", "worker-1"), newDriver("open"),
		"--enable-auth=false")
	w.awaitSidecar("open", connected)

	// Sidecars of a tenant and of another driver, which would get the calls for the volumes of the
	// driver.
	w.addSidecar(w.addPod("tenant", "plugin", "worker-1"), newDriver("cinder"))
	w.addSidecar(w.addPod("other-drivers", "plugin", "worker-1"), newDriver("cinder"))
	w.awaitReason("cinder", "other-drivers", node.ReasonNotAllowed)

	w.checkImpostors(found, pod)
	w.checkDuplicate()
	w.checkReplacedPod(newDriver)
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
	w.awaitReason("ceph", driverNamespace, node.ReasonDuplicate)
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
			v1alpha1.CSIAddonsNodeFailed, node.ReasonNotOwned,
		},
		{
			"no-pin", original.Spec.Driver.EndPoint, "", "worker-1", owner,
			v1alpha1.CSIAddonsNodeFailed, node.ReasonNoPin,
		},
		{
			"second", original.Spec.Driver.EndPoint, wrongPin, "worker-1", owner,
			v1alpha1.CSIAddonsNodeFailed, node.ReasonWrongName,
		},
		{
			proper, otherEndpoint, wrongPin, "worker-2", otherOwner,
			v1alpha1.CSIAddonsNodeFailed, node.ReasonWrongNode,
		},
		{
			proper, otherEndpoint, wrongPin, "worker-1", otherOwner,
			v1alpha1.CSIAddonsNodeRetrying, node.ReasonUnreachable,
		},
		{
			"other-namespace", "pod://plugin.tenant:9070", wrongPin, "worker-1", owner,
			v1alpha1.CSIAddonsNodeFailed, node.ReasonBadEndpoint,
		},
		{
			"address", "10.0.0.1:9070", wrongPin, "worker-1", owner,
			v1alpha1.CSIAddonsNodeFailed, node.ReasonBadEndpoint,
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
func (w *world) checkReplacedPod(newDriver func(string) *fakeDriver) {
	w.Helper()
	pod := w.addPod(driverNamespace, "replaced", "worker-1")
	stop := w.addSidecar(pod, newDriver("cinder"))
	before := w.awaitSidecar("cinder", ofPod("replaced", connected))
	stop()
	w.removePod(pod)
	pod = w.addPod(driverNamespace, "replaced", "worker-2")
	w.addSidecar(pod, newDriver("cinder"))
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
		w.eventually(func(ctx context.Context) (bool, error) {
			key := types.NamespacedName{Namespace: driverNamespace, Name: name}
			err := w.client.Get(ctx, key, &v1alpha1.CSIAddonsNode{})
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	}
}

// TestStepsBack starts the controller beside another controller, and lets others come and go.
func TestStepsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addNode("worker-1")
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openshift-storage"}})
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-storage", Name: guard.LeaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("odf"), LeaseDurationSeconds: ptr.To(int32(600)), RenewTime: &now,
		},
	}
	w.create(lease)
	w.startController("--driver-namespaces=cinder=" + driverNamespace)
	w.awaitActive(corev1.ConditionFalse, controller.ReasonOther)
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"),
		&fakeDriver{name: "cinder", services: services{nodeService}})

	// The other controller ends without a release of its Lease.
	lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = ptr.To(int32(1)), ptr.To(metav1.NowMicro())
	w.must(w.client.Update(t.Context(), lease))
	w.awaitActive(corev1.ConditionTrue, controller.ReasonNoOther)
	w.awaitSidecar("cinder", connected)

	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-storage", Name: guard.DeploymentName},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
			},
		},
	}
	w.create(deployment)
	w.awaitActive(corev1.ConditionFalse, controller.ReasonOther)
	w.checkNoLease()
	w.must(w.client.Delete(t.Context(), deployment))
	w.awaitActive(corev1.ConditionTrue, controller.ReasonNoOther)
	w.awaitEvent(systemNamespace, w.pod, "openshift-storage/"+guard.DeploymentName)
}

// awaitActive waits for the condition of the controller's pod.
func (w *world) awaitActive(is corev1.ConditionStatus, reason string) {
	w.Helper()
	w.eventually(func(ctx context.Context) (bool, error) {
		pod := &corev1.Pod{}
		key := types.NamespacedName{Namespace: systemNamespace, Name: w.pod}
		if err := w.client.Get(ctx, key, pod); err != nil {
			return false, err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == controller.ActiveCondition {
				return condition.Status == is && condition.Reason == reason, nil
			}
		}
		return false, nil
	})
}

// checkNoLease waits until nobody holds the Lease of the controller.
func (w *world) checkNoLease() {
	w.Helper()
	w.eventually(func(ctx context.Context) (bool, error) {
		lease := &coordinationv1.Lease{}
		key := types.NamespacedName{Namespace: systemNamespace, Name: "csi-addons-openstack"}
		err := w.client.Get(ctx, key, lease)
		return err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == "", err
	})
}

// TestOptionsFollowTheConfigMap checks that an unknown key and an invalid value are warnings.
func TestOptionsFollowTheConfigMap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startController("--driver-namespaces=cinder=" + driverNamespace)
	w.awaitActive(corev1.ConditionTrue, controller.ReasonNoOther)
	w.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: settings.ConfigMap},
		Data:       map[string]string{"reclaim-space-timeout": "never", "color": "blue"},
	})
	w.awaitEvent(systemNamespace, settings.ConfigMap, `key "color" is unknown`)
	w.awaitEvent(systemNamespace, settings.ConfigMap, `key "reclaim-space-timeout": `)
}
