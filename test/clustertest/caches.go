package clustertest

import (
	"context"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Eventually waits until something is done.
func Eventually(tb testing.TB, done func() bool, what string) {
	tb.Helper()
	err := wait.PollUntilContextTimeout(tb.Context(), time.Millisecond, syncTimeout, true,
		func(context.Context) (bool, error) { return done(), nil })
	assert.NilError(tb, err, "waiting for %s", what)
}

// CatchUp waits until a cache has the same object as the API server, or none.
func CatchUp[T any, P interface {
	*T
	metav1.Object
}](
	tb testing.TB,
	api interface {
		Get(ctx context.Context, name string, options metav1.GetOptions) (P, error)
	},
	name string, cached func() P,
) {
	tb.Helper()
	Eventually(tb, func() bool {
		served, err := api.Get(tb.Context(), name, metav1.GetOptions{})
		found := cached()
		return err != nil && found == nil || err == nil && found != nil && same(served, found)
	}, "the cache of "+name)
}

// same compares objects without the fields that caches remove.
func same[T any, P interface {
	*T
	metav1.Object
}](served, cached P) bool {
	served.SetManagedFields(nil)
	return equality.Semantic.DeepEqual(served, cached)
}

// StorageClasses waits until the cache has the StorageClasses of the API server, and returns them.
func (f *Fake) StorageClasses(tb testing.TB) []*storagev1.StorageClass {
	tb.Helper()
	var served []*storagev1.StorageClass
	cache := f.Side(flavour.Guest).Informers.InformersFor("").Storage().V1().StorageClasses().Lister()
	Eventually(tb, func() bool {
		list, err := f.Guest.StorageV1().StorageClasses().List(tb.Context(), metav1.ListOptions{})
		assert.NilError(tb, err)
		all, err := cache.List(labels.Everything())
		assert.NilError(tb, err)
		served = nil
		for i := range list.Items {
			class := &list.Items[i]
			cached, err := cache.Get(class.Name)
			if err != nil || !same(class, cached) {
				return false
			}
			served = append(served, class)
		}
		return len(all) == len(served)
	}, "the cache of StorageClasses")
	return served
}
