package cluster_test

import (
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// The fake ignores field selectors, so the trigger also gets events of the other Role.
func TestTriggerCallsAllHandlersWithTheName(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{Guest: []runtime.Object{
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "a", Name: "x", Annotations: map[string]string{"b": "c"},
			},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}}},
		},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "other"}},
	}})
	trigger := f.Side(flavour.Guest).Trigger(rbacv1.SchemeGroupVersion.WithResource("roles"), "a", "x")
	events := make(chan any, 10)
	for range 2 {
		_, err := trigger.AddEventHandler(cache.FilteringResourceEventHandler{
			FilterFunc: func(obj any) bool { return obj.(metav1.Object).GetName() == "x" },
			Handler: cache.ResourceEventHandlerFuncs{
				AddFunc:    func(obj any) { events <- obj },
				DeleteFunc: func(any) { events <- "deleted" },
			},
		})
		assert.NilError(t, err)
	}
	assert.Check(t, !trigger.HasSynced() && !trigger.Exists(), "the trigger runs before Start")
	f.Start(t)
	want := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}
	for range 2 {
		assert.Check(t, is.DeepEqual(any(want), receive(t, events)), "added")
	}
	assert.Check(t, trigger.Exists(), "the object does not exist")
	clustertest.Delete(t, f.Guest, &rbacv1.Role{ObjectMeta: want.ObjectMeta})
	for range 2 {
		assert.Check(t, is.Equal(receive(t, events), any("deleted")))
	}
	assert.Check(t, !trigger.Exists(), "the object exists after its deletion")
}

func TestOnlyOptionalTriggerSyncsWhileItIsRefused(t *testing.T) {
	t.Parallel()
	for _, optional := range []bool{false, true} {
		f := clustertest.New(t, clustertest.Seed{})
		forbidden := apierrors.NewForbidden(rbacv1.Resource("roles"), "x", errors.New("not granted"))
		f.Guest.PrependReactor("list", "roles",
			func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
		roles := rbacv1.SchemeGroupVersion.WithResource("roles")
		trigger := f.Side(flavour.Guest).Trigger(roles, "a", "x")
		trigger.Optional = optional
		f.Cluster.Start(t.Context())
		refused := func() bool { return apierrors.IsForbidden(trigger.Refusal()) }
		clustertest.Eventually(t, refused, "the refusal")
		assert.Check(t, trigger.HasSynced() == optional && !trigger.Exists(), "optional: %v", optional)
	}
}

func receive(t *testing.T, from <-chan any) any {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(wait.ForeverTestTimeout):
		t.Fatal("timed out")
		return nil
	}
}
