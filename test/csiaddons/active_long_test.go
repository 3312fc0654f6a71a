//go:build integration && long

package csiaddons

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/guard"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
)

func TestStepsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.part("for another controller", (*world).checkStepsBack)
	w.part("not for invalid options", (*world).checkInvalidOptions)
}

// checkStepsBack starts the controller beside another controller, and lets others come and go.
func (w *world) checkStepsBack() {
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
	w.must(w.client.Update(w.Context(), lease))
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
	w.must(w.client.Delete(w.Context(), deployment))
	w.awaitActive(corev1.ConditionTrue, controller.ReasonNoOther)
	w.awaitEvent(systemNamespace, w.pod, "openshift-storage/"+guard.DeploymentName)
}

// checkInvalidOptions checks that an unknown key and an invalid value are warnings.
func (w *world) checkInvalidOptions() {
	w.startController("--driver-namespaces=cinder=" + driverNamespace)
	w.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: settings.ConfigMap},
		Data:       map[string]string{"reclaim-space-timeout": "never", "color": "blue"},
	})
	w.awaitEvent(systemNamespace, settings.ConfigMap, `key "color" is unknown`)
	w.awaitEvent(systemNamespace, settings.ConfigMap, `key "reclaim-space-timeout": `)
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

// TestNamespaceWithoutRoleBinding runs the controller for the namespaces of drivers that do not
// exist, or have no RoleBinding.
func TestNamespaceWithoutRoleBinding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.part("no namespace is served", (*world).checkNoNamespace)
	w.part("one namespace is served", (*world).checkServedNamespace)
}

// checkNoNamespace checks that the controller waits until it may read the namespace of its only
// driver.
func (w *world) checkNoNamespace() {
	w.startController("--driver-namespaces=ceph=only")
	w.awaitActive(corev1.ConditionFalse, controller.ReasonForbidden)
	w.addDriverNamespace("only")
	w.awaitActive(corev1.ConditionTrue, controller.ReasonNoOther)
	w.addSidecar(w.addPod("only", "plugin", "worker-1"), nodeDriver("ceph"))
	w.awaitSidecar("ceph", connected)
}

// checkServedNamespace runs the controller for three drivers: the namespace of one does not exist,
// and that of another has no RoleBinding. The controller serves the third one, and the others when
// it may.
func (w *world) checkServedNamespace() {
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unbound"}})
	w.startController("--driver-namespaces=cinder="+driverNamespace, "--driver-namespaces=new=created",
		"--driver-namespaces=manila=unbound")
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), nodeDriver("cinder"))
	w.awaitActive(corev1.ConditionTrue, controller.ReasonForbidden)
	w.awaitEvent(systemNamespace, w.pod, "in the namespaces created, unbound, so")
	w.awaitSidecar("cinder", connected)
	w.addVolume("data", "cinder", "worker-1")
	w.addJob("served", "data")
	if job := w.awaitEnd("served"); job.Status.Result != v1alpha1.OperationSucceeded {
		w.Errorf("the job of a served namespace ended with %+v", job.Status)
	}
	w.addVolume("other", "manila", "worker-1")
	w.addJob("waiting", "other")

	w.bindDriverRole("unbound")
	w.addSidecar(w.addPod("unbound", "plugin", "worker-1"), nodeDriver("manila"))
	w.awaitSidecar("manila", connected)
	w.awaitEvent(systemNamespace, w.pod, "in the namespaces created, so")
	if job := w.awaitEnd("waiting"); job.Status.Result != v1alpha1.OperationSucceeded {
		w.Errorf("the job that waited for the namespace ended with %+v", job.Status)
	}

	w.addDriverNamespace("created")
	w.awaitActive(corev1.ConditionTrue, controller.ReasonNoOther)
	w.addSidecar(w.addPod("created", "plugin", "worker-1"), nodeDriver("new"))
	w.awaitSidecar("new", connected)
	w.awaitSidecar("cinder", connected)
}
