package storageclass

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// The tests of the driver plugins cover the rest of the controller.

func TestListWakesOnlyOnChange(t *testing.T) {
	t.Parallel()
	woken := 0
	c := &Controller{}
	_, _ = c.changed.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(any, any) { woken++ },
	})
	list := func(names ...string) {
		var types []openstack.Type
		for _, name := range names {
			types = append(types, openstack.Type{Name: name})
		}
		c.SetTypes(types)
	}
	for _, types := range [][]string{{"a", "b"}, {"b", "a"}, {"b", "a", "a"}} {
		list(types...)
	}
	assert.Check(t, woken == 1, "woken %d times by one list in three spellings, want once", woken)
	if list(); woken != 2 {
		t.Errorf("woken %d times, want a second time when the types are gone", woken)
	}
}

// In the state Removed the operator deletes the additional StorageClasses, and no others.
func TestAdditionalClassHasTheNameAndTypeOfAChoice(t *testing.T) {
	t.Parallel()
	config := &choice.Config{Classes: []choice.NamedClass{{Type: "gold", Name: "mine"}}}
	c := &Controller{Names: classes.Names{Provisioner: "manila.csi.openstack.org"}}
	for _, one := range []struct {
		name, shareType string
		want            bool
	}{{"mine", "gold", true}, {"mine", "silver", false}, {"other", "gold", false}} {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: one.name}, Provisioner: c.Provisioner,
			Parameters: map[string]string{classes.TypeParameter: one.shareType},
		}
		assert.Check(t, is.Equal(c.isAdditional(config, class), one.want), "%+v", one)
	}
}
