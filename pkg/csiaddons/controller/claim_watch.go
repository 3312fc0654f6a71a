package controller

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
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

// indexClass indexes claims by the name of their StorageClass, and indexClaim unusual
// ReclaimSpaceCronJobs by the name of their claim.
const indexClass, indexClaim = "class", "claim"

// SetUp adds the reconciler to a manager.
func (c *Claims) SetUp(ctx context.Context, m manager.Manager) error {
	indexer := m.GetFieldIndexer()
	err := errors.Join(
		indexer.IndexField(ctx, &v1alpha1.ReclaimSpaceCronJob{}, indexClaim, unusual),
		indexer.IndexField(ctx, &corev1.PersistentVolumeClaim{}, indexClass,
			func(o client.Object) []string {
				return []string{ptr.Deref(o.(*corev1.PersistentVolumeClaim).Spec.StorageClassName, "")}
			}))
	if err != nil {
		return err
	}
	all := &corev1.PersistentVolumeClaimList{}
	inNamespace := connection.Belonging(c.Client, all, func(o client.Object) client.ListOption {
		return client.InNamespace(o.GetName())
	})
	ofClass := connection.Belonging(c.Client, all, func(o client.Object) client.ListOption {
		return client.MatchingFields{indexClass: o.GetName()}
	})
	annotated := builder.WithPredicates(predicate.AnnotationChangedPredicate{})
	return builder.ControllerManagedBy(m).Named("claimschedule").
		For(&corev1.PersistentVolumeClaim{}).
		Owns(&v1alpha1.ReclaimSpaceCronJob{}).
		Watches(&v1alpha1.CSIAddonsNode{}, handler.EnqueueRequestsFromMapFunc(c.offering)).
		WatchesMetadata(&corev1.Namespace{}, inNamespace, annotated).
		WatchesMetadata(&storagev1.StorageClass{}, ofClass, annotated).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.AsReconciler(m.GetClient(), c))
}

// unusual returns the name of the claim of a ReclaimSpaceCronJob for the index, unless the latter
// has the name that this controller chooses: an entry needs 600 bytes, and most have this name.
func unusual(o client.Object) []string {
	target := targetOf(o.(*v1alpha1.ReclaimSpaceCronJob))
	if o.GetName() == appended(target, cronJobSuffix) {
		return nil
	}
	return []string{target}
}

func targetOf(c *v1alpha1.ReclaimSpaceCronJob) string {
	return c.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim
}
