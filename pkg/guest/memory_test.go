package guest_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

func TestDropUnusedRemovesContent(t *testing.T) {
	t.Parallel()
	class := func(managers ...metav1.ManagedFieldsEntry) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: "c", Annotations: map[string]string{"a": strings.Repeat("x", 64<<10)},
				ManagedFields: managers,
			},
			Provisioner: "driver", Parameters: map[string]string{"type": "fast"},
		}
	}
	names := metav1.ObjectMeta{Namespace: "n", Name: "r", UID: "u", ResourceVersion: "7"}
	whole := *names.DeepCopy()
	whole.Annotations = map[string]string{"a": "b"}
	for name, tt := range map[string]struct{ given, want any }{
		"a large class": {class(metav1.ManagedFieldsEntry{Manager: "m"}), class()},
		"metadata": {
			&metav1.PartialObjectMetadata{ObjectMeta: whole},
			&metav1.PartialObjectMetadata{ObjectMeta: names},
		},
		"what is no API": {"tombstone", "tombstone"},
	} {
		got, err := guest.DropUnused(tt.given)
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(tt.want, got), name)
	}
}
