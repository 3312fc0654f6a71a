package controller

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

func TestCachesContainOnlyWhatTheOperationsRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", maxAnnotation+1)
	written := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
			Annotations: map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": "{}",
				"notcsiaddons.openshift.io/a":                      "b",
				v1alpha1.ReclaimSpaceScheduleAnnotation:            long,
				v1alpha1.StateAnnotation:                           v1alpha1.ManagedState,
				v1alpha1.CertificatePinAnnotation:                  "sha256:0",
				v1alpha1.LastUpdatedAtAnnotation:                   "2026-01-01T00:00:00Z",
				v1alpha1.CreatedByPodUIDAnnotation:                 "1",
			},
		}
	}
	keptOfFence := map[string]string{
		v1alpha1.LastUpdatedAtAnnotation: "2026-01-01T00:00:00Z", v1alpha1.CreatedByPodUIDAnnotation: "1",
		v1alpha1.StateAnnotation: v1alpha1.ManagedState, v1alpha1.CertificatePinAnnotation: "sha256:0",
	}
	for _, one := range []struct {
		object client.Object
		shrink toolscache.TransformFunc
		want   map[string]string
	}{
		{&v1alpha1.CSIAddonsNode{ObjectMeta: written()}, shrinkSidecar, map[string]string{
			v1alpha1.CertificatePinAnnotation: "sha256:0",
		}},
		{&v1alpha1.NetworkFence{ObjectMeta: written()}, shrink, keptOfFence},
		{&v1alpha1.NetworkFence{}, shrink, nil},
	} {
		if _, err := one.shrink(one.object); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(one.want, one.object.GetAnnotations()); diff != "" {
			t.Errorf("annotations of %T in the cache (-want +got):\n%s", one.object, diff)
		}
		if one.object.GetManagedFields() != nil {
			t.Errorf("the cache contains the managed fields of %T", one.object)
		}
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "a"}
	for _, transform := range []toolscache.TransformFunc{
		shrink, shrinkSidecar, shrinkPod, shrinkNode, shrinkAttachment, shrinkJob, shrinkCronJob,
	} {
		if got, err := transform(gone); err != nil || got != any(gone) {
			t.Errorf("an object whose last state is unknown becomes %v: %v", got, err)
		}
	}
}

func TestCachesOfSidecarsContainOnlyNamespacesOfDrivers(t *testing.T) {
	t.Parallel()
	options := cacheOptions([]string{"x", "y"})
	limited := 0
	for object, by := range options.ByObject {
		switch object.(type) {
		case *v1alpha1.CSIAddonsNode:
			limited += len(by.Namespaces)
		default:
		}
	}
	if limited != 2 {
		t.Errorf("the cache of CSIAddonsNodes contains %d namespaces, want 2", limited)
	}
}
