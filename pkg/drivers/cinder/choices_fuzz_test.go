package cinder

import (
	"testing"

	"gotest.tools/v3/assert"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// FuzzChoices: whatever an administrator writes and whatever a volume type is called, a
// StorageClass is valid and belongs to its volume type. standard-csi belongs to none.
func FuzzChoices(f *testing.F) {
	for _, text := range []string{
		"", cinderChoices, cinderChoices + "classes: [{type: gold, name: x, availability: az1}]\n",
		cinderChoices + "types: {include: ['*']}\ndefaultClass: x\nclass: {labels: {a: b}}\n",
		cinderChoices + "defaultClass: standard-csi\nclass: {availability: az1, mountOptions: [ro]}\n",
	} {
		f.Add(text, "gold")
	}
	types := newFixture(f, standalone()).types
	standard := assetsOf[storagev1.StorageClass](f, flavour.Standalone, bundle.StorageClass)[0]
	f.Fuzz(func(t *testing.T, text, name string) {
		config, valid := clustertest.CheckChoices(t, types.Controller, types, text,
			openstack.Type{Name: name})
		if !valid {
			return
		}
		class := standard.DeepCopy()
		config.ClassOf("").Apply(class)
		config.MarkDefault(class)
		clustertest.CheckClass(t, class, &standard)
		assert.Check(t, class.Parameters["type"] == "" && class.Name == standard.Name, "%+v", class)
	})
}
