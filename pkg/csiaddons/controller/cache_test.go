package controller

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

func TestCachesContainOnlyWhatTheControllerReads(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 20<<10)
	written := metav1.ObjectMeta{
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": "{}",
			"notcsiaddons.openshift.io/a":                      "b",
			v1alpha1.ReclaimSpaceScheduleAnnotation:            long,
			v1alpha1.StateAnnotation:                           v1alpha1.ManagedState,
		},
	}
	kept := metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.ReclaimSpaceScheduleAnnotation: long[:maxAnnotation],
		v1alpha1.StateAnnotation:                v1alpha1.ManagedState,
	}}
	addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	for _, one := range []struct{ object, want client.Object }{
		{&v1alpha1.NetworkFence{ObjectMeta: written}, &v1alpha1.NetworkFence{ObjectMeta: kept}},
		{
			&corev1.Node{Status: corev1.NodeStatus{
				Addresses: addresses, Images: []corev1.ContainerImage{{Names: []string{"a"}}},
			}},
			&corev1.Node{Status: corev1.NodeStatus{Addresses: addresses}},
		},
		{
			&corev1.Pod{
				Spec:   corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "b"}}},
				Status: corev1.PodStatus{PodIP: "10.0.0.2", Phase: corev1.PodRunning, HostIP: "10.0.0.1"},
			},
			&corev1.Pod{
				Spec:   corev1.PodSpec{NodeName: "a"},
				Status: corev1.PodStatus{PodIP: "10.0.0.2", Phase: corev1.PodRunning},
			},
		},
	} {
		if _, err := shrink(one.object); err != nil {
			t.Fatal(err)
		}
		assert.Check(t, is.DeepEqual(one.want, one.object), "%T in the cache", one.object)
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "a"}
	if got, err := shrink(gone); err != nil || got != any(gone) {
		t.Errorf("an object whose last state is unknown becomes %v: %v", got, err)
	}
}
