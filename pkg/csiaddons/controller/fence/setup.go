package fence

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
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
)

// options returns the options of both controllers. A failed attempt is repeated until it succeeds.
func options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			firstRetry, maxRetry),
	}
}

// SetUp adds the reconciler to a manager.
func (r *Reconciler) SetUp(m manager.Manager) error {
	ofClass := r.requests(func(class client.Object, f *v1alpha1.NetworkFence) bool {
		return f.Spec.NetworkFenceClassName == class.GetName()
	})
	r.lost = make(connection.Names)
	if err := m.Add(r); err != nil {
		return err
	}
	waiting := r.requests(func(changed client.Object, f *v1alpha1.NetworkFence) bool {
		return f.Name != changed.GetName() && waits(f)
	})
	return builder.ControllerManagedBy(m).Named("networkfence").
		For(&v1alpha1.NetworkFence{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.NetworkFence{}, waiting,
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.NetworkFenceClass{}, ofClass).
		WatchesRawSource(r.lost.Source()).
		WithOptions(options()).Complete(r)
}

// waits returns whether a NetworkFence waits for the end of another one. The
// CustomResourceDefinition of another program has conditions, but may lack the field status.reason.
func waits(f *v1alpha1.NetworkFence) bool {
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionFenced)
	return found != nil && found.Reason == ReasonFencedByAnother
}

// requests returns a handler that reconciles the NetworkFences which a function selects for an
// object.
func (r *Reconciler) requests(selects func(client.Object, *v1alpha1.NetworkFence) bool,
) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(
		func(ctx context.Context, object client.Object) []reconcile.Request {
			var fences v1alpha1.NetworkFenceList
			if err := r.Client.List(ctx, &fences); err != nil {
				return nil // the cache has stopped
			}
			var requests []reconcile.Request
			for i := range fences.Items {
				if f := &fences.Items[i]; selects(object, f) {
					requests = append(requests,
						reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f)})
				}
			}
			return requests
		})
}

// ReleaseClasses adds a reconciler to a manager that removes the finalizer of the controller of the
// CSI-Addons for Ceph from NetworkFenceClasses of these drivers. Without that controller, they
// would never be deleted.
func ReleaseClasses(m manager.Manager, drivers connection.Drivers) error {
	deleted := predicate.NewPredicateFuncs(func(o client.Object) bool {
		driver := o.(*v1alpha1.NetworkFenceClass).Spec.Provisioner
		return o.GetDeletionTimestamp() != nil && len(drivers[driver].Namespaces) > 0
	})
	return builder.ControllerManagedBy(m).Named("networkfenceclass").
		For(&v1alpha1.NetworkFenceClass{}, builder.WithPredicates(deleted)).
		Complete(reconcile.AsReconciler(m.GetClient(), releaser{m.GetClient()}))
}

type releaser struct{ client.Client }

// Reconcile removes the finalizer of a class that is being deleted.
func (r releaser) Reconcile(ctx context.Context, class *v1alpha1.NetworkFenceClass,
) (reconcile.Result, error) {
	return reconcile.Result{}, connection.Release(ctx, r.Client, class,
		v1alpha1.CSIAddonsNodeFinalizer)
}

// SetUp adds the reconciler to a manager.
func (c *Clients) SetUp(ctx context.Context, m manager.Manager) error {
	if err := addIndexes(ctx, m.GetFieldIndexer()); err != nil {
		return err
	}
	ofDriver := connection.Belonging(c.Client, &v1alpha1.CSIAddonsNodeList{},
		func(class client.Object) client.ListOption {
			driver := class.(*v1alpha1.NetworkFenceClass).Spec.Provisioner
			return client.MatchingFields{connection.IndexDriver: driver}
		})
	connected := predicate.Funcs{UpdateFunc: connection.BecomesConnected}
	return builder.ControllerManagedBy(m).Named("fenceclients").
		For(&v1alpha1.CSIAddonsNode{}, builder.WithPredicates(connected)).
		Watches(&v1alpha1.NetworkFenceClass{}, ofDriver).
		WithOptions(options()).Complete(c)
}
