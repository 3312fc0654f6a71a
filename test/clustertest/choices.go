package clustertest

import (
	"testing"

	"gotest.tools/v3/assert"
	storagev1 "k8s.io/api/storage/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/storageclass"
)

// CheckChoices checks the StorageClasses of a type for what an administrator wrote: each is valid,
// belongs to the type, and keeps the parameters that it has without choices. It returns the
// choices, or false if they are invalid.
func CheckChoices(
	t *testing.T, c *storageclass.Controller, d storageclass.Driver, text string,
	offered openstack.Type,
) (*choice.Config, bool) {
	t.Helper()
	config, faults := choice.Parse(c.Kind, text, flavour.Kubernetes)
	if len(faults) > 0 {
		return nil, false
	}
	types := map[string]openstack.Type{offered.Name: offered}
	for _, w := range c.Wanted(config, types, c.Of([]string{offered.Name}, nil)) {
		class := d.Required(w, nil)
		config.MarkDefault(class)
		CheckClass(t, class, d.Required(classes.Class{Name: w.Name, Type: w.Type}, nil))
		assert.Check(t, c.IsClassOf(class, w.Type.Name),
			"not a class of type %q: %+v", w.Type.Name, class)
	}
	return config, true
}

// CheckClass checks that a StorageClass is valid, and has the provisioner and the parameters of the
// one without choices.
func CheckClass(t *testing.T, class, plain *storagev1.StorageClass) {
	t.Helper()
	for key, value := range plain.Parameters {
		if class.Parameters[key] != value {
			t.Errorf("parameter %s is %q, want %q", key, class.Parameters[key], value)
		}
	}
	if class.Provisioner != plain.Provisioner || len(validation.IsDNS1123Subdomain(class.Name)) > 0 ||
		len(metav1validation.ValidateLabels(class.Labels, nil)) > 0 {
		t.Errorf("got %+v", class)
	}
}
