package connection

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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

// Queue contains the requests of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Priorities of requests. That of events is 0, and that of the objects which exist when the
// controller starts is handler.LowPriority.
const (
	// First is for a call that may wait for an object, but not for thousands of new ones.
	First = 1
	last  = handler.LowPriority - 1
)

// Enqueue adds a request for an object. A queue has one request for each object, the earliest. A
// source.Func gets the queue of its controller before the workers start.
func Enqueue(q Queue, name types.NamespacedName, priority int, after time.Duration) {
	request := reconcile.Request{NamespacedName: name}
	q.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(
		priorityqueue.AddOpts{Priority: &priority, After: after}, request)
}
