package cluster_test

import (
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
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

// The test checks the requests, because the fake ignores field selectors.
func TestObjectInformersSelectOneObject(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{Guest: []runtime.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "x", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		}},
	}})
	kube, named := f.Guest, f.Side(flavour.Guest).ObjectInformers
	secrets := named.For("a", "x").Core().V1().Secrets()
	secrets.Informer()
	named.For("b", "y").Core().V1().ConfigMaps().Informer()
	assert.Check(t, named.For("a", "x").Core().V1().Secrets().Informer() == secrets.Informer(),
		"the same object has two informers")
	assert.Check(t, is.Len(kube.Actions(), 0), "sent before Start")
	named.Start(t.Context())
	for object, types := range named.WaitForCacheSync(t.Context().Done()) {
		for kind, synced := range types {
			assert.Check(t, synced, "informer of %s %s has not synced", kind, object)
		}
	}
	want := map[string]bool{
		"list a/secrets metadata.name=x": true, "watch a/secrets metadata.name=x": true,
		"list b/configmaps metadata.name=y": true, "watch b/configmaps metadata.name=y": true,
	}
	var got map[string]bool
	// An informer has synced before it watches.
	clustertest.Eventually(t, func() bool {
		got = sent(t, kube.Actions())
		return len(got) >= len(want)
	}, "the watches")
	assert.Check(t, is.DeepEqual(want, got), "requests")
	cached, err := secrets.Lister().Secrets("a").Get("x")
	assert.Check(t, err == nil && len(cached.ManagedFields) == 0,
		"cached is %v, %v; want the Secret without managed fields", cached, err)
}

// sent returns the object that each list and watch selects.
func sent(t *testing.T, actions []clienttesting.Action) map[string]bool {
	t.Helper()
	requests := map[string]bool{}
	for _, action := range actions {
		request := action.GetVerb() + " " + action.GetNamespace() + "/" + action.GetResource().Resource
		switch a := action.(type) {
		case clienttesting.ListAction:
			requests[request+" "+a.GetListRestrictions().Fields.String()] = true
		case clienttesting.WatchAction:
			requests[request+" "+a.GetWatchRestrictions().Fields.String()] = true
		default:
			t.Errorf("sent %s", request)
		}
	}
	return requests
}

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
	ending := &rbacv1.Role{ObjectMeta: want.ObjectMeta}
	ending.DeletionTimestamp, ending.Finalizers = new(metav1.Now()), []string{"example.com/wait"}
	clustertest.Put(t, f.Guest, ending)
	clustertest.Eventually(t, func() bool { return !trigger.Exists() }, "the end of the object")
	clustertest.Delete(t, f.Guest, ending)
	for range 2 {
		assert.Check(t, is.Equal(receive(t, events), any("deleted")))
	}
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
