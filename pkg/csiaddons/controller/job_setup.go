package controller

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// workers is the number of objects of a kind that are reconciled at the same time, besides jobs
// with calls.
const workers = 10

// SetUp adds the reconciler to a manager.
func (r *Jobs) SetUp(ctx context.Context, m manager.Manager) error {
	calls := r.Options.MaxConcurrent
	err := m.GetFieldIndexer().IndexField(ctx, &storagev1.VolumeAttachment{}, indexVolume, byVolume)
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).Named("reclaimspacejob").
		For(&v1alpha1.ReclaimSpaceJob{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.ReclaimSpaceJob{}, r.cancelDeleted()).
		WatchesRawSource(source.Func(func(_ context.Context, q connection.Queue) error {
			r.limits = newLimits(calls, r.MaxPerDriver, func(job types.NamespacedName) {
				connection.Enqueue(q, job, connection.First, 0)
			}, r.Metrics)
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: calls + workers}).
		Complete(r)
}

// cancelDeleted cancels the calls of jobs that are deleted.
func (r *Jobs) cancelDeleted() handler.Funcs {
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ connection.Queue) {
			if e.ObjectNew.GetDeletionTimestamp() != nil {
				r.cancel(e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ connection.Queue) {
			r.cancel(e.Object)
		},
	}
}
