package cluster

import (
	"context"
	"path"

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

	// ListFailed is called when a list fails, if it is set.
	ListFailed func(context.Context, error)
	store      cache.Store
	key        string
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
			if t.ListFailed != nil && err != nil {
				t.ListFailed(ctx, err)
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

// Exists returns whether the object exists.
func (t *Trigger) Exists() bool {
	_, exists, _ := t.store.GetByKey(t.key) // the store returns no error
	return exists
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
