package fence

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
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

	// indexClass indexes NetworkFences by their class.
	indexClass = "class"
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
func (r *Reconciler) SetUp(ctx context.Context, m manager.Manager) error {
	err := errors.Join(m.Add(r),
		m.GetFieldIndexer().IndexField(ctx, &v1alpha1.NetworkFence{}, indexClass, byClass))
	if err != nil {
		return err
	}
	ofClass := connection.Belonging(r.Client, &v1alpha1.NetworkFenceList{},
		func(class client.Object) client.ListOption {
			return client.MatchingFields{indexClass: class.GetName()}
		})
	changed := predicate.Or[client.Object](predicate.GenerationChangedPredicate{},
		predicate.Funcs{UpdateFunc: isLost})
	return builder.ControllerManagedBy(m).Named("networkfence").
		For(&v1alpha1.NetworkFence{}, builder.WithPredicates(changed)).
		Watches(&v1alpha1.NetworkFenceClass{}, ofClass).
		WithOptions(options()).Complete(r)
}

// isLost returns whether the clients of the current spec were fenced, and may have access now.
func isLost(e event.UpdateEvent) bool {
	before, now := e.ObjectOld.(*v1alpha1.NetworkFence), e.ObjectNew.(*v1alpha1.NetworkFence)
	return !outdated(before) &&
		meta.IsStatusConditionTrue(before.Status.Conditions, ConditionFenced) &&
		!meta.IsStatusConditionTrue(now.Status.Conditions, ConditionFenced)
}

// byClass returns the class of a NetworkFence, for the index.
func byClass(o client.Object) []string {
	return []string{o.(*v1alpha1.NetworkFence).Spec.NetworkFenceClassName}
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
	indexer := m.GetFieldIndexer()
	err := errors.Join(indexer.IndexField(ctx, &corev1.Node{}, indexAddress, byAddress),
		indexer.IndexField(ctx, &v1alpha1.CSIAddonsNode{}, indexClient, byClient))
	if err != nil {
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
