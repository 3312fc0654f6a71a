package fence

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

const (
	workers = 10
	// eventDelay is the time from a change to a decision, so that a call contains the NetworkFences
	// that somebody creates for all nodes of a rack.
	eventDelay = time.Second / 2
)

// options returns the options of a controller. A failed attempt is repeated until it succeeds.
func options(longest time.Duration) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			min(firstRetry, longest), longest),
	}
}

// SetUp adds the reconciler to a manager.
func (r *Reconciler) SetUp(m manager.Manager) error {
	r.calls, r.drivers = make(chan func(context.Context)), map[string]*state{noDriver: {}}
	for driver := range r.Drivers {
		r.drivers[driver] = &state{driver: driver}
	}
	drivers := func(client.Object) (names []types.NamespacedName) {
		for driver := range r.drivers {
			names = append(names, types.NamespacedName{Name: driver})
		}
		return names
	}
	queue := source.Func(func(_ context.Context, queue connection.Queue) error {
		r.queue = queue
		return nil
	})
	unsettled := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { // by somebody else, too
		before, now := e.ObjectOld.(*v1alpha1.NetworkFence), e.ObjectNew.(*v1alpha1.NetworkFence)
		return settled(before) && !settled(now)
	}}
	return errors.Join(m.Add(manager.RunnableFunc(r.runCalls)),
		builder.ControllerManagedBy(m).Named("networkfence").
			Watches(&v1alpha1.NetworkFence{}, after(eventDelay, drivers),
				builder.WithPredicates(
					predicate.Or(predicate.GenerationChangedPredicate{}, unsettled))).
			Watches(&v1alpha1.NetworkFenceClass{}, after(eventDelay, drivers)).
			WatchesRawSource(queue).WithOptions(options(serverRetry)).Complete(r))
}

// runCalls runs the calls of drivers until the manager stops, and returns when each has returned.
// The manager releases its Lease after that, so no call runs beside those of the next leader.
func (r *Reconciler) runCalls(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case call := <-r.calls:
			running.Go(func() { call(ctx) })
		}
	}
}

// after returns a handler that adds requests some time after each event.
func after(delay time.Duration, names func(client.Object) []types.NamespacedName) handler.Funcs {
	add := func(o client.Object, q connection.Queue) {
		for _, name := range names(o) {
			connection.Enqueue(q, name, 0, delay)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q connection.Queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q connection.Queue) {
			add(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q connection.Queue) { add(e.Object, q) },
	}
}

// SetUp adds the reconciler to a manager.
func (c *Clients) SetUp(ctx context.Context, m manager.Manager) error {
	err := m.GetFieldIndexer().IndexField(ctx, &v1alpha1.CSIAddonsNode{}, indexClient, byClient)
	if err != nil {
		return err
	}
	ofDriver := connection.Belonging(c.Client, &v1alpha1.CSIAddonsNodeList{},
		func(class client.Object) client.ListOption {
			driver := class.(*v1alpha1.NetworkFenceClass).Spec.Provisioner
			return client.MatchingFields{connection.IndexDriver: driver}
		})
	connected := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before := e.ObjectOld.(*v1alpha1.CSIAddonsNode).Status.State
		now := e.ObjectNew.(*v1alpha1.CSIAddonsNode).Status.State
		return now == v1alpha1.CSIAddonsNodeConnected && before != now
	}}
	return builder.ControllerManagedBy(m).Named("fenceclients").
		For(&v1alpha1.CSIAddonsNode{}, builder.WithPredicates(connected)).
		Watches(&v1alpha1.NetworkFenceClass{}, ofDriver).
		WithOptions(options(maxRetry)).Complete(c)
}
