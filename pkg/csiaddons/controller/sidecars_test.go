package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// hostileSidecar returns a CSIAddonsNode as large as somebody with root on a node can make it.
func hostileSidecar() *v1alpha1.CSIAddonsNode {
	node := &v1alpha1.CSIAddonsNode{ObjectMeta: hostileMeta()}
	for _, key := range []string{
		v1alpha1.CertificatePinAnnotation, v1alpha1.NetworkFenceClassNamesAnnotation,
		v1alpha1.LastUpdatedAtAnnotation, v1alpha1.CreatedByPodUIDAnnotation,
	} {
		node.Annotations[key] = strings.Repeat("v", 20<<10)
	}
	for range 1000 {
		node.OwnerReferences = append(node.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "Pod", Name: "a", UID: types.UID(strings.Repeat("u", 300)),
		})
	}
	node.Spec.Driver = v1alpha1.CSIAddonsNodeDriver{
		Name: strings.Repeat("d", 256<<10), EndPoint: strings.Repeat("e", 256<<10),
		NodeID: strings.Repeat("n", 256<<10),
	}
	node.Status.Message = "kept"
	return node
}

func TestCacheContainsOnlyWhatIsReadOfCSIAddonsNodes(t *testing.T) {
	t.Parallel()
	want := &v1alpha1.CSIAddonsNode{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "a", UID: "1", ResourceVersion: "2", Generation: 3,
		OwnerReferences: []metav1.OwnerReference{{UID: "4"}, {UID: "5"}},
		Annotations: map[string]string{ // neither a pin nor a list of names
			v1alpha1.CertificatePinAnnotation:         strings.Repeat("v", maxName+1),
			v1alpha1.NetworkFenceClassNamesAnnotation: strings.Repeat("v", maxClasses+1),
		},
	}}
	for len(want.OwnerReferences) < maxOwners {
		want.OwnerReferences = append(want.OwnerReferences,
			metav1.OwnerReference{UID: types.UID(strings.Repeat("u", maxName+1))})
	}
	want.Spec.Driver = v1alpha1.CSIAddonsNodeDriver{
		Name: strings.Repeat("d", 64), EndPoint: strings.Repeat("e", wire.MaxEndpoint+1),
		NodeID: strings.Repeat("n", 254),
	}
	want.Status.Message = "kept"
	got, err := shrinkSidecar(hostileSidecar())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, the cache contains (-want +got):\n%s", err, diff)
	}
}

func TestCacheContainsAllThatIsReadOfAnnouncedSidecars(t *testing.T) {
	t.Parallel()
	pod := strings.Repeat("p", 253)
	longest := wire.Endpoint{Pod: pod, Namespace: strings.Repeat("n", 63), Port: 65535}
	node := &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: longest.Namespace, Name: pod, UID: "1",
			Finalizers: []string{v1alpha1.CSIAddonsNodeFinalizer, "example.com/other"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod, UID: "7e4be5f6-2c9e-4d3b-8f0a-2f1c3b8a9d10",
				Controller: ptr.To(true),
			}},
			Annotations: map[string]string{
				v1alpha1.CertificatePinAnnotation:         "sha256:" + strings.Repeat("0", 64),
				v1alpha1.NetworkFenceClassNamesAnnotation: `["a","b"]`,
			},
		},
		Spec: v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{
			Name: strings.Repeat("d", 63), EndPoint: longest.String(), NodeID: strings.Repeat("n", 253),
		}},
	}
	want := node.DeepCopy()
	want.OwnerReferences = []metav1.OwnerReference{{UID: node.OwnerReferences[0].UID}}
	got, err := shrinkSidecar(node)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, the cache contains (-want +got):\n%s", err, diff)
	}
}

// A patch of finalizers replaces the list.
func TestCacheContainsAllFinalizersOfACSIAddonsNodeOrNone(t *testing.T) {
	t.Parallel()
	const own = v1alpha1.CSIAddonsNodeFinalizer
	full := []string{own, strings.Repeat("f", maxFinalizer)}
	for n := len(full); n < maxFinalizers; n++ {
		full = append(full, fmt.Sprintf("example.com/%d", n))
	}
	for name, test := range map[string]struct{ finalizers, want []string }{
		"none":     {nil, nil},
		"most":     {full, full},
		"too many": {append([]string{"example.com/other"}, full...), nil},
		"too long": {[]string{own, strings.Repeat("f", maxFinalizer+1)}, nil},
	} {
		node := &v1alpha1.CSIAddonsNode{ObjectMeta: metav1.ObjectMeta{Finalizers: test.finalizers}}
		if _, err := shrinkSidecar(node); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, node.Finalizers); diff != "" {
			t.Errorf("%s: the cache contains (-want +got):\n%s", name, diff)
		}
	}
}
