package connection

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Requests returns requests for the objects in a cache that the options select. Their kind is that
// of the empty list.
func Requests(ctx context.Context, cache client.Reader, empty client.ObjectList,
	options ...client.ListOption,
) []reconcile.Request {
	list := empty.DeepCopyObject().(client.ObjectList)
	if cache.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...) != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	_ = meta.EachListItem(list, func(o runtime.Object) error { // it fails only if the list is none
		requests = append(requests,
			reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o.(client.Object))})
		return nil
	})
	return requests
}

// Belonging returns a handler that reconciles the objects in a cache that belong to another object.
// Their kind is that of the empty list.
func Belonging(cache client.Reader, empty client.ObjectList,
	to func(client.Object) client.ListOption,
) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(
		func(ctx context.Context, o client.Object) []reconcile.Request {
			return Requests(ctx, cache, empty, to(o))
		})
}

// Names is a channel of objects to reconcile.
type Names chan event.TypedGenericEvent[types.NamespacedName]

// Source returns the source of their requests for a controller. They precede requests because of
// events: a call may wait for such an object, but not for thousands of new ones.
func (n Names) Source() source.Source {
	type (
		generic = event.TypedGenericEvent[types.NamespacedName]
		queue   = workqueue.TypedRateLimitingInterface[reconcile.Request]
	)
	return source.TypedChannel(n, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
		GenericFunc: func(_ context.Context, e generic, q queue) {
			request := reconcile.Request{NamespacedName: e.Object}
			prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request])
			if !ok {
				q.Add(request)
				return
			}
			first := 1 // the priority of events is 0
			prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &first}, request)
		},
	})
}

// Send sends the name of an object. It blocks until somebody reads it, or ctx is done.
func (n Names) Send(ctx context.Context, name types.NamespacedName) {
	select {
	case n <- event.TypedGenericEvent[types.NamespacedName]{Object: name}:
	case <-ctx.Done():
	}
}
