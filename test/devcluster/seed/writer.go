package seed

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Writer creates or replaces objects.
type Writer interface {
	Write(ctx context.Context, object *unstructured.Unstructured) error
}

// clusterWriter writes to a real API server.
type clusterWriter struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

// NewWriter returns a Writer for a cluster whose CRDs are all installed.
func NewWriter(config *rest.Config) (Writer, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))
	return clusterWriter{client: client, mapper: mapper}, nil
}

func (w clusterWriter) Write(ctx context.Context, object *unstructured.Unstructured) error {
	gvk := object.GroupVersionKind()
	mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return fmt.Errorf("finding the resource of %s: %w", gvk, err)
	}
	client := w.client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	written, err := create(ctx, client, object)
	if err == nil {
		err = writeStatus(ctx, client, object, written)
	}
	if err != nil {
		return fmt.Errorf("writing %s %q: %w", gvk.Kind, object.GetName(), err)
	}
	return nil
}

func create(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	written, err := client.Create(ctx, object, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return written, err
	}
	found, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	update := object.DeepCopy()
	update.SetResourceVersion(found.GetResourceVersion())
	return client.Update(ctx, update, metav1.UpdateOptions{})
}

// writeStatus writes a status that did not come with the object: most resources
// take it only separately, nodes take it at once.
func writeStatus(ctx context.Context, client dynamic.ResourceInterface, object, written *unstructured.Unstructured) error {
	status, wanted := object.Object["status"]
	if _, has := written.Object["status"]; !wanted || has {
		return nil
	}
	update := written.DeepCopy()
	update.Object["status"] = status
	_, err := client.UpdateStatus(ctx, update, metav1.UpdateOptions{})
	return err
}
