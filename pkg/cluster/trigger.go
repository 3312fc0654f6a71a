package cluster

import (
	"context"
	"path"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// Trigger watches one object of any kind, and triggers controllers when it changes. It knows
// whether the object exists, but not its content. It needs less memory than a shared informer,
// which has three more goroutines, and a buffer of 16 KiB for each handler.
type Trigger struct {
	cache.Controller
	handlers

	// Optional is true for an object that controllers do not wait for while it may not be listed.
	Optional bool
	store    cache.Store
	key      string
	// refusal is the error of the last list if the API server refused it.
	refusal atomic.Pointer[error]
}

// Trigger returns a trigger for an object, which the Start of the cluster starts.
func (c *Clients) Trigger(resource schema.GroupVersionResource, namespace, name string) *Trigger {
	client := c.Metadata.Resource(resource).Namespace(namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	t := &Trigger{key: path.Join(namespace, name)}
	requests := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			list, err := client.List(ctx, o)
			if apierrors.IsForbidden(err) {
				t.refusal.Store(&err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return client.Watch(ctx, o)
		},
	}
	t.store, t.Controller = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(requests, c.Metadata),
		ObjectType:    &metav1.PartialObjectMetadata{},
		Handler:       &t.handlers,
		Transform:     guest.DropUnused,
	})
	c.triggers = append(c.triggers, t)
	return t
}

// CRD returns a trigger for a CustomResourceDefinition.
func (c *Clients) CRD(name string) *Trigger {
	return c.Trigger(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}, "", name)
}

// Exists returns whether the object exists and is not being deleted.
func (t *Trigger) Exists() bool {
	found, _, _ := t.store.GetByKey(t.key) // the store returns no error
	object, ok := found.(*metav1.PartialObjectMetadata)
	return ok && object.DeletionTimestamp == nil
}

// HasSynced returns whether the trigger knows if the object exists, or must not be waited for.
func (t *Trigger) HasSynced() bool {
	return t.Controller.HasSynced() || t.Optional && t.Refusal() != nil
}

// Refusal returns the error of the API server while it has refused every list.
func (t *Trigger) Refusal() error {
	if err := t.refusal.Load(); err != nil && !t.Controller.HasSynced() {
		return *err
	}
	return nil
}

// handlers passes each event to all handlers, one after the other. Those of library-go only add an
// item to a queue.
type handlers []cache.ResourceEventHandler

// AddEventHandler adds a handler. It must be called before the events.
func (h *handlers) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	*h = append(*h, handler)
	return nil, nil
}

// OnAdd implements cache.ResourceEventHandler.
func (h *handlers) OnAdd(obj any, isInInitialList bool) {
	for _, handler := range *h {
		handler.OnAdd(obj, isInInitialList)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *handlers) OnUpdate(before, obj any) {
	for _, handler := range *h {
		handler.OnUpdate(before, obj)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h *handlers) OnDelete(obj any) {
	for _, handler := range *h {
		handler.OnDelete(obj)
	}
}
