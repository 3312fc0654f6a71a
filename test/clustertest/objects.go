package clustertest

import (
	"testing"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/openshift/library-go/pkg/operator/events"
)

// Put creates or replaces objects. Its writes are not among the actions of the client.
func Put(tb testing.TB, client *kubefake.Clientset, objects ...runtime.Object) {
	tb.Helper()
	for _, object := range objects {
		resource, namespace, _ := located(tb, object)
		err := client.Tracker().Create(resource, object, namespace)
		if apierrors.IsAlreadyExists(err) {
			err = client.Tracker().Update(resource, object, namespace)
		}
		assert.NilError(tb, err)
	}
}

// Delete deletes an object, as Put writes it.
func Delete(tb testing.TB, client *kubefake.Clientset, object runtime.Object) {
	tb.Helper()
	resource, namespace, name := located(tb, object)
	assert.NilError(tb, client.Tracker().Delete(resource, namespace, name))
}

func located(
	tb testing.TB, object runtime.Object,
) (resource schema.GroupVersionResource, namespace, name string) {
	tb.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	assert.NilError(tb, err)
	resource, _ = meta.UnsafeGuessKindToResource(kinds[0])
	found, err := meta.Accessor(object)
	assert.NilError(tb, err)
	return resource, found.GetNamespace(), found.GetName()
}

// Messages returns the messages of the events with a reason.
func Messages(recorder events.InMemoryRecorder, reason string) (messages []string) {
	for _, event := range recorder.Events() {
		if event.Reason == reason {
			messages = append(messages, event.Message)
		}
	}
	return messages
}
