package controller

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
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
	// workers is the number of objects of a kind that are reconciled at the same time, besides jobs
	// with calls.
	workers = 10
	// wakeBuffer is how many jobs can be woken before the manager reads them.
	wakeBuffer = 1024
)

// SetUp adds the reconciler to a manager.
func (r *Jobs) SetUp(ctx context.Context, m manager.Manager) error {
	r.woken = make(connection.Names, wakeBuffer)
	calls := r.Options.MaxConcurrent
	r.limits = newLimits(calls, r.MaxPerDriver, func(job types.NamespacedName) {
		select {
		case r.woken <- event.TypedGenericEvent[types.NamespacedName]{Object: job}:
		default: // the job is checked after queueInterval
		}
	}, r.Metrics)
	err := m.GetFieldIndexer().IndexField(ctx, &storagev1.VolumeAttachment{}, indexVolume, byVolume)
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).Named("reclaimspacejob").
		For(&v1alpha1.ReclaimSpaceJob{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.ReclaimSpaceJob{}, r.cancelDeleted()).
		WatchesRawSource(r.woken.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: calls + workers}).
		Complete(r)
}

// cancelDeleted cancels the calls of jobs that are deleted.
func (r *Jobs) cancelDeleted() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) {
			if e.ObjectNew.GetDeletionTimestamp() != nil {
				r.cancel(e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) { r.cancel(e.Object) },
	}
}
