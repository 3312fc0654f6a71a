package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// workers is the number of objects of a kind that are reconciled at the same time, besides jobs
	// with calls.
	workers = 10
	// wakeBuffer is how many jobs can be woken before the manager reads them.
	wakeBuffer = 1024
	// wakeDelay is the time between the connection of a sidecar and the next step of the jobs that
	// wait for one.
	wakeDelay = time.Second
	// indexObstacle indexes jobs by the reason for which they wait.
	indexObstacle = "obstacle"
	// indexClaim indexes jobs that have not ended, and ReclaimSpaceCronJobs, by the name of their
	// claim.
	indexClaim = "claim"
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
	indexer := m.GetFieldIndexer()
	err := errors.Join(
		indexer.IndexField(ctx, &storagev1.VolumeAttachment{}, indexVolume, volumeOf),
		indexer.IndexField(ctx, &v1alpha1.ReclaimSpaceJob{}, indexObstacle, obstacleOf),
		indexer.IndexField(ctx, &v1alpha1.ReclaimSpaceJob{}, indexClaim, claimOf))
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).Named("reclaimspacejob").
		For(&v1alpha1.ReclaimSpaceJob{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.ReclaimSpaceJob{}, r.cancelDeleted()).
		Watches(&v1alpha1.CSIAddonsNode{}, handler.Funcs{UpdateFunc: wakeAfterConnection},
			builder.WithPredicates(predicate.Funcs{UpdateFunc: connection.BecomesConnected})).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.jobsOf),
			builder.WithPredicates(becameBound())).
		WatchesRawSource(r.woken.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: calls + workers}).
		Complete(r)
}

// cancelDeleted cancels the calls of jobs that are deleted.
func (r *Jobs) cancelDeleted() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) {
			deleted := e.ObjectNew.GetDeletionTimestamp() != nil
			if deleted || e.ObjectNew.GetUID() != e.ObjectOld.GetUID() {
				r.cancel(e.ObjectOld)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) { r.cancel(e.Object) },
	}
}

// wakeAfterConnection requests that the jobs that wait for a sidecar are woken. If many sidecars
// are connected at the same time, the jobs are woken once.
func wakeAfterConnection(_ context.Context, _ event.UpdateEvent,
	queue workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	queue.AddAfter(reconcile.Request{}, wakeDelay)
}

// wakeWaiting wakes the jobs that wait for a sidecar.
func (r *Jobs) wakeWaiting(ctx context.Context) {
	for _, one := range connection.Requests(ctx, r.Client, &v1alpha1.ReclaimSpaceJobList{},
		client.MatchingFields{indexObstacle: ReasonNoSidecar}) {
		r.woken.Send(ctx, one.NamespacedName)
	}
}

// becameBound selects claims that have just been bound. The controller reads all jobs after the
// first list of claims.
func becameBound() predicate.Predicate {
	is := func(o client.Object) bool { return bound(o.(*corev1.PersistentVolumeClaim)) }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList && is(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return is(e.ObjectNew) && (!is(e.ObjectOld) || e.ObjectOld.GetUID() != e.ObjectNew.GetUID())
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// jobsOf returns requests for the jobs of a claim that have not ended. A job whose status does not
// say yet that it waits for the claim is one of them.
func (r *Jobs) jobsOf(ctx context.Context, claim client.Object) []reconcile.Request {
	return connection.Requests(ctx, r.Client, &v1alpha1.ReclaimSpaceJobList{},
		client.InNamespace(claim.GetNamespace()), client.MatchingFields{indexClaim: claim.GetName()})
}

// claimOf returns the name of the claim of a job that has not ended.
func claimOf(o client.Object) []string {
	job := o.(*v1alpha1.ReclaimSpaceJob)
	if job.Status.Result != "" {
		return nil
	}
	return []string{job.Spec.Target.PersistentVolumeClaim}
}

// obstacleOf returns the reason for which a job waits. The CustomResourceDefinition may lack the
// reason in the status, so it is read from the condition.
func obstacleOf(o client.Object) []string {
	job := o.(*v1alpha1.ReclaimSpaceJob)
	running := meta.FindStatusCondition(job.Status.Conditions, ConditionRunning)
	if job.Status.Result != "" || running == nil || running.Status == metav1.ConditionTrue {
		return nil
	}
	return []string{running.Reason}
}
