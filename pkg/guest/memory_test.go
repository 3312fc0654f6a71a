package guest_test

import (
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

func TestDropUnusedRemovesContent(t *testing.T) {
	t.Parallel()
	class := func(provisioner, parameter string,
		annotations map[string]string,
	) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: "c", UID: "u", ResourceVersion: "7", Annotations: annotations,
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
			},
			Provisioner: provisioner, Parameters: map[string]string{"type": parameter},
		}
	}
	bare := func(provisioner string, annotations map[string]string) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: "c", UID: "u", ResourceVersion: "7",
				Annotations: annotations,
			}, Provisioner: provisioner,
		}
	}
	own := class("driver", "fast", map[string]string{"a": "b"})
	own.ManagedFields = nil
	isDefault := map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	both := map[string]string{"storageclass.kubernetes.io/is-default-class": "true", "a": "b"}
	for name, tt := range map[string]struct{ given, want any }{
		"own class":   {class("driver", "fast", map[string]string{"a": "b"}), own},
		"another's":   {class("other", "fast", map[string]string{"a": "b"}), bare("other", nil)},
		"the default": {class("other", "fast", both), bare("other", isDefault)},
		"a big own":   {class("driver", strings.Repeat("x", 5000), both), bare("driver", isDefault)},
		"metadata": {
			&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "r", Annotations: both}},
			&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "r"}},
		},
		"what is no API": {"tombstone", "tombstone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slim := guest.DropUnused("driver")
			got, err := slim(tt.given)
			if err != nil {
				t.Fatal(err)
			}
			again, err := slim(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tt.want, again); diff != "" {
				t.Errorf("cached (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyObjectDropsOthers(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 100)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "own", Namespace: "n",
		ResourceVersion: "7", Annotations: map[string]string{"a": text},
	}}
	other := secret.DeepCopy()
	other.Name, other.Data = "other", map[string][]byte{"a": []byte(text)}
	unknown := &unstructured.Unstructured{Object: map[string]any{"spec": text}}
	unknown.SetName("other")
	for name, tt := range map[string]struct{ given, want any }{
		"the object":     {secret, secret},
		"another":        {other, &corev1.Secret{}},
		"unstructured":   {unknown, &unstructured.Unstructured{}},
		"what is no API": {"tombstone", "tombstone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := guest.OnlyObject("n", "own", guest.DropUnused(""))(tt.given)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("cached (-want +got):\n%s", diff)
			}
		})
	}
}
