package fence

import (
	"context"
	"errors"
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

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

const (
	workers    = 10
	firstRetry = 5 * time.Second
	maxRetry   = 5 * time.Minute
	// callDelay is the time from a change to a call, so that a call contains the NetworkFences that
	// somebody creates for all nodes of a rack. The reconcile of each of them comes after it.
	callDelay, reportDelay = time.Second / 2, time.Second
)

// options returns the options of the controllers. A failed attempt is repeated until it succeeds.
func options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			firstRetry, maxRetry),
	}
}

// SetUp adds the reconciler and the callers to a manager.
func (r *Reconciler) SetUp(m manager.Manager) error {
	r.callers = map[string]*caller{}
	for driver := range r.Drivers {
		r.callers[driver] = &caller{Reconciler: r, name: driver}
	}
	all := func(ctx context.Context, _ client.Object) []reconcile.Request {
		return connection.Requests(ctx, r.Client, &v1alpha1.NetworkFenceList{})
	}
	itself := func(o client.Object) []types.NamespacedName {
		return []types.NamespacedName{client.ObjectKeyFromObject(o)}
	}
	drivers := func(client.Object) (names []types.NamespacedName) {
		for driver := range r.callers {
			names = append(names, types.NamespacedName{Name: driver})
		}
		return names
	}
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return errors.Join(builder.ControllerManagedBy(m).Named("networkfence").
		Watches(&v1alpha1.NetworkFence{}, after(reportDelay, itself), changed).
		Watches(&v1alpha1.NetworkFenceClass{}, handler.EnqueueRequestsFromMapFunc(all)).
		WithOptions(options()).Complete(r),
		builder.ControllerManagedBy(m).Named("networkfencecalls").
			Watches(&v1alpha1.NetworkFence{}, after(callDelay, drivers), changed).
			Watches(&v1alpha1.NetworkFenceClass{}, after(callDelay, drivers)).
			WithOptions(options()).Complete(reconcile.Func(
			func(ctx context.Context, driver reconcile.Request) (reconcile.Result, error) {
				return r.callers[driver.Name].reconcile(ctx)
			})))
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
		WithOptions(options()).Complete(c)
}
