//go:build integration

package csiaddons

import (
	"context"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

const (
	scheduleKey = v1alpha1.ReclaimSpaceScheduleAnnotation
	className   = "fast"
	team        = "team"
)

type annotations = map[string]string

// TestSchedulesByAnnotation schedules claims by annotations of the claim, of its namespace and of
// its StorageClass, with the permissions of the manifests.
func TestSchedulesByAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: team, Annotations: annotations{scheduleKey: "@daily"},
	}}, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: className, Annotations: annotations{scheduleKey: "@monthly"},
		},
		Provisioner: "cinder",
	})
	const args = "--driver-namespaces=cinder=" + driverNamespace
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), nodeDriver("cinder"))
	stop := w.startController(args)
	w.awaitSidecar("cinder", connected)
	w.addClaim("default", "own", "cinder", annotations{scheduleKey: "@weekly"})
	w.addClaim(team, "data", "cinder", nil)
	w.addClaim("default", "plain", "cinder", nil)

	w.awaitSchedule("default/own", "@weekly", "PersistentVolumeClaim")
	w.awaitSchedule(team+"/data", "@daily", "Namespace")
	before := w.awaitSchedule("default/plain", "@monthly", "StorageClass")

	w.annotate(&corev1.PersistentVolumeClaim{}, "own", "@hourly")
	w.awaitSchedule("default/own", "@hourly", "PersistentVolumeClaim")
	w.annotate(&corev1.Namespace{}, team, "@hourly")
	w.awaitSchedule(team+"/data", "@hourly", "Namespace")
	w.annotate(&storagev1.StorageClass{}, className, "0 0 1 */2 *")
	w.awaitSchedule("default/plain", "0 0 1 */2 *", "StorageClass")

	// A restart creates nothing new.
	stop()
	w.annotate(&storagev1.StorageClass{}, className, "@yearly")
	w.startController(args)
	after := w.awaitSchedule("default/plain", "@yearly", "StorageClass")
	assert.Check(t, before.UID == after.UID, "the ReclaimSpaceCronJob %s was replaced", after.Name)

	// A user deletes what the annotation demands.
	w.must(w.client.Delete(t.Context(), after))
	w.eventually(func(ctx context.Context) (bool, error) {
		one, err := w.scheduleOf(ctx, "default/plain")
		return one != nil && one.UID != after.UID, err
	})

	w.must(w.client.Delete(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "data"},
	}))
	w.awaitNoSchedule(team + "/data")
}

// annotate sets the schedule of an object; claims are in the namespace default.
func (w *world) annotate(object client.Object, name, schedule string) {
	w.Helper()
	object.SetName(name)
	if _, ok := object.(*corev1.PersistentVolumeClaim); ok {
		object.SetNamespace("default")
	}
	patch := `{"metadata": {"annotations": {"` + scheduleKey + `": "` + schedule + `"}}}`
	w.must(w.client.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// addClaim creates a claim with the volume of a driver and the StorageClass.
func (w *world) addClaim(namespace, name, driverOf string, with annotations) {
	w.Helper()
	volume, claim := newVolume(namespace, name, driverOf), newClaim(namespace, name)
	claim.Annotations = with
	w.create(volume, claim)
}

func newClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeName:  volumeName(namespace, name), StorageClassName: ptr.To(className),
			Resources: corev1.VolumeResourceRequirements{Requests: oneGigabyte()},
		},
	}
}

func volumeName(namespace, name string) string { return namespace + "-" + name }

func newVolume(namespace, name, driverOf string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName(namespace, name)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    oneGigabyte(), StorageClassName: className,
			ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driverOf, VolumeHandle: name},
			},
		},
	}
}

func oneGigabyte() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
}

// scheduleOf returns the ReclaimSpaceCronJob of a claim, namespace/name, or nil.
func (w *world) scheduleOf(ctx context.Context, claim string,
) (*v1alpha1.ReclaimSpaceCronJob, error) {
	namespace, name, _ := strings.Cut(claim, "/")
	one := &v1alpha1.ReclaimSpaceCronJob{}
	err := w.client.Get(ctx, types.NamespacedName{
		Namespace: namespace, Name: name + "-reclaimspace",
	}, one)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return one, err
}

// awaitSchedule waits for the schedule of a claim, which comes from a kind of object.
func (w *world) awaitSchedule(claim, text, from string) *v1alpha1.ReclaimSpaceCronJob {
	w.Helper()
	var one *v1alpha1.ReclaimSpaceCronJob
	w.eventually(func(ctx context.Context) (bool, error) {
		var err error
		one, err = w.scheduleOf(ctx, claim)
		return one != nil && one.Spec.Schedule == text &&
			one.Labels[v1alpha1.ScheduleFromLabel] == from, err
	})
	return one
}

func (w *world) awaitNoSchedule(claim string) {
	w.Helper()
	w.eventually(func(ctx context.Context) (bool, error) {
		one, err := w.scheduleOf(ctx, claim)
		return one == nil, err
	})
}
