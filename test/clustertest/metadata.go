package clustertest

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

// newMetadata returns a client that lists and watches the metadata of the objects of kube.
func newMetadata(kube *kubefake.Clientset) metadata.Interface {
	client := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	client.PrependReactor("list", "*",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			list, ok := action.(clienttesting.ListActionImpl)
			if !ok {
				return true, nil, fmt.Errorf("the action is a %T", action)
			}
			if list.Kind = kindOf(list.Resource); list.Kind.Empty() {
				return false, nil, nil // of a CRD
			}
			objects, err := kube.Invokes(list, nil)
			if err != nil {
				return true, nil, err
			}
			ret := &metav1.List{}
			return true, ret, meta.EachListItem(objects, func(object runtime.Object) error {
				ret.Items = append(ret.Items, runtime.RawExtension{Object: metadataOf(object)})
				return nil
			})
		})
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if kindOf(action.GetResource()).Empty() {
			return false, nil, nil
		}
		events, err := kube.InvokesWatch(action)
		if err != nil {
			return true, nil, err
		}
		return true, watch.Filter(events, func(e watch.Event) (watch.Event, bool) {
			e.Object = metadataOf(e.Object)
			return e, true
		}), nil
	})
	return client
}

// kindOf returns the kind of a resource, "" if it is not built in.
func kindOf(resource schema.GroupVersionResource) schema.GroupVersionKind {
	for kind := range scheme.Scheme.AllKnownTypes() {
		if guess, _ := meta.UnsafeGuessKindToResource(kind); guess == resource {
			return kind
		}
	}
	return schema.GroupVersionKind{}
}

func metadataOf(object runtime.Object) runtime.Object {
	full, err := meta.Accessor(object)
	if err != nil {
		return object // an error
	}
	return meta.AsPartialObjectMetadata(full)
}

// crds is the resource of CustomResourceDefinitions.
func crds() schema.GroupVersionResource {
	return schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
}

// PutCRD creates a CustomResourceDefinition, of which operators read only the metadata.
func PutCRD(tb testing.TB, client metadata.Interface, name string) {
	tb.Helper()
	definition := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	definition.SetGroupVersionKind(crds().GroupVersion().WithKind("CustomResourceDefinition"))
	fake, ok := client.(*metadatafake.FakeMetadataClient)
	assert.Assert(tb, ok, "the client is a %T", client)
	assert.NilError(tb, fake.Tracker().Create(crds(), definition, ""))
}

// DeleteCRD deletes a CustomResourceDefinition.
func DeleteCRD(tb testing.TB, client metadata.Interface, name string) {
	tb.Helper()
	err := client.Resource(crds()).Delete(tb.Context(), name, metav1.DeleteOptions{})
	assert.NilError(tb, err)
}
