package storageclass

import (
	"testing"

	"k8s.io/client-go/tools/cache"

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
	if woken != 1 {
		t.Errorf("woken %d times by one list in three spellings, want once", woken)
	}
	if list(); woken != 2 {
		t.Errorf("woken %d times, want a second time when the types are gone", woken)
	}
}
