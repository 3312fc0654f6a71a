package controller

import (
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// world is a fake API server, which is also the cache of the controller, with the events that the
// controller records. The driver "a" has pods in the namespace "drivers".
type world struct {
	*testing.T
	client.WithWatch

	events *events.FakeRecorder
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	known, err := newScheme()
	assert.NilError(t, err)
	kube := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.ReclaimSpaceJob{}, &v1alpha1.ReclaimSpaceCronJob{}).
		WithIndex(&storagev1.VolumeAttachment{}, indexVolume, byVolume).
		WithIndex(&v1alpha1.ReclaimSpaceJob{}, indexOwner, byOwner).
		WithIndex(&v1alpha1.ReclaimSpaceCronJob{}, indexClaim, unusual).Build()
	return &world{T: t, WithWatch: kube, events: events.NewFakeRecorder(100)}
}

func servedDrivers() connection.Drivers {
	return connection.Drivers{"a": {Namespaces: []string{"drivers"}}}
}

func (w *world) must(err error) {
	w.Helper()
	assert.NilError(w, err)
}

// read reads an object again.
func (w *world) read(o client.Object) {
	w.Helper()
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(o), o))
}

// claimOfTenant returns a claim in a phase, with the volume "pv" and the StorageClass "fast".
func claimOfTenant(uid types.UID, phase corev1.PersistentVolumeClaimPhase,
) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "data", UID: uid},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "pv", StorageClassName: ptr.To("fast"),
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
	}
}

// volumeFor returns the volume "pv" of the driver "a", which is bound to a claim.
func volumeFor(claim types.UID) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "tenant", Name: "data", UID: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "a"},
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

// attachment returns the VolumeAttachment of the volume "pv" to the node "used".
func attachment() *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: storagev1.VolumeAttachmentSpec{
			NodeName: "used",
			Source:   storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv")},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	}
}
