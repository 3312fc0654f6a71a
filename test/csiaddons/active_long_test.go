//go:build integration && long

package csiaddons

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
)

// TestOtherController starts the controller beside another controller, lets others come and go,
// and changes the options. The controller ends, and kubelet would start it again.
func TestOtherController(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openshift-storage"}})
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-storage", Name: controller.LeaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("odf"), LeaseDurationSeconds: ptr.To(int32(600)),
			RenewTime: ptr.To(metav1.NowMicro()),
		},
	}
	w.create(lease)
	ended := w.runController("--driver-namespaces=cinder="+driverNamespace,
		"--other-controller-namespaces=openshift-storage")
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"),
		&fakeDriver{name: "cinder", services: services{nodeService}})

	// The other controller ends without a release of its Lease.
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
	w.must(w.client.Update(t.Context(), lease))
	w.awaitSidecar("cinder", connected)

	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-storage", Name: controller.DeploymentName},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
			},
		},
	}
	w.create(deployment)
	w.awaitExit(ended, "the Deployment openshift-storage/"+controller.DeploymentName)
	w.checkNoLease()
	w.must(w.client.Delete(t.Context(), deployment))
	w.awaitGone(deployment)

	ended = w.runController("--driver-namespaces=cinder=" + driverNamespace)
	options := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: controller.ConfigMap},
		Data:       map[string]string{"reclaim-space-timeout": "never", "color": "blue"},
	}
	w.create(options)
	w.awaitEvent(systemNamespace, controller.ConfigMap, `key "color" is unknown`)
	w.awaitEvent(systemNamespace, controller.ConfigMap, `key "reclaim-space-timeout": `)
	options.Data = map[string]string{"reclaim-space-timeout": "5m"}
	w.must(w.client.Update(t.Context(), options))
	w.awaitExit(ended, "")
}

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
	w.addDriverNamespace("only")
	w.addSidecar(w.addPod("only", "plugin", "worker-1"), nodeDriver("ceph"))
	w.awaitSidecar("ceph", connected)
}

// checkServedNamespace runs the controller for three drivers: the namespace of one does not exist,
// and that of another has no RoleBinding. The controller serves the third one, and ends when it may
// serve another one.
func (w *world) checkServedNamespace() {
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
