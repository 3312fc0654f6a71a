package cluster_test

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

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
