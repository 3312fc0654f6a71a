package choice_test

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

func TestWithoutChoicesNothingChanges(t *testing.T) {
	t.Parallel()
	var none *choice.Config
	class := &storagev1.StorageClass{}
	none.ClassOf("gold").Apply(class)
	none.MarkDefault(class)
	assert.Check(t, is.DeepEqual(&storagev1.StorageClass{}, class))
	if !none.Installs() || !none.Selects(choice.Manila, "gold") ||
		none.Selects(choice.Cinder, "gold") || none.NeedsVolumeTypes() ||
		none.More() != nil || none.OwnsDefault() {
		t.Error("nil is not the default")
	}
}

func TestPatternsSelectTypes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		selection       choice.Selection
		shares, volumes []string
	}{
		"none": {choice.Selection{Include: []string{}}, nil, nil},
		"all":  {choice.Selection{}, []string{"gold", "gold-test", "silver"}, nil},
		"some": {
			choice.Selection{Include: []string{"gold*"}},
			[]string{"gold", "gold-test"},
			[]string{"gold", "gold-test"},
		},
		"excluded": {choice.Selection{Exclude: []string{"*-test"}}, []string{"gold", "silver"}, nil},
		"both": {
			choice.Selection{Include: []string{"gold*"}, Exclude: []string{"*t"}},
			[]string{"gold"},
			[]string{"gold"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := &choice.Config{Types: test.selection}
			for kind, want := range map[choice.Kind][]string{
				choice.Manila: test.shares, choice.Cinder: test.volumes,
			} {
				var got []string
				for _, name := range []string{"gold", "gold-test", "silver"} {
					if config.Selects(kind, name) {
						got = append(got, name)
					}
				}
				assert.Check(t, is.DeepEqual(want, got), kind)
			}
		})
	}
}

func TestValuesOfATypeHavePrecedence(t *testing.T) {
	t.Parallel()
	config := &choice.Config{
		DefaultClass: "gold",
		Class: choice.Class{
			ReclaimPolicy: "Retain", MountOptions: []string{"a"}, Availability: "az1",
			Labels: map[string]string{"all": "x", "both": "x"},
		},
		Classes: []choice.NamedClass{{Type: "gold", Class: choice.Class{
			ReclaimPolicy: "Delete", MountOptions: []string{"b"},
			Labels: map[string]string{"both": "y"},
		}}},
	}
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gold", Annotations: map[string]string{"mine": "x"}},
		Parameters: map[string]string{"type": "gold"},
	}
	config.ClassOf("gold").Apply(class)
	config.MarkDefault(class)
	want := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "gold", Labels: map[string]string{"all": "x", "both": "y"},
			Annotations: map[string]string{
				"mine": "x", "storageclass.kubernetes.io/is-default-class": "true",
			},
		},
		Parameters:    map[string]string{"type": "gold", "availability": "az1"},
		ReclaimPolicy: new(corev1.PersistentVolumeReclaimDelete),
		MountOptions:  []string{"b"},
	}
	assert.Check(t, is.DeepEqual(want, class))
	assert.Check(t, is.DeepEqual("x", config.Class.Labels["both"]), "the choices changed")
}
