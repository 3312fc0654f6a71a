package controller

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
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

// indexClass indexes claims by the name of their StorageClass.
const indexClass = "class"

// SetUp adds the reconciler to a manager.
func (c *Claims) SetUp(ctx context.Context, m manager.Manager) error {
	err := m.GetFieldIndexer().IndexField(ctx, &v1alpha1.ReclaimSpaceCronJob{}, indexClaim,
		unusual)
	if err != nil {
		return err
	}
	err = m.GetFieldIndexer().IndexField(ctx, &corev1.PersistentVolumeClaim{}, indexClass,
		func(o client.Object) []string {
			return []string{ptr.Deref(o.(*corev1.PersistentVolumeClaim).Spec.StorageClassName, "")}
		})
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
	return builder.ControllerManagedBy(m).Named("claimschedule").
		For(&corev1.PersistentVolumeClaim{}, builder.WithPredicates(changedClaim())).
		WatchesMetadata(&corev1.Namespace{}, inNamespace, builder.WithPredicates(annotated())).
		WatchesMetadata(&storagev1.StorageClass{}, ofClass, builder.WithPredicates(annotated())).
		Watches(&v1alpha1.ReclaimSpaceCronJob{}, handler.EnqueueRequestsFromMapFunc(claimsOf),
			builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{},
				predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(c)
}

// changedClaim selects claims of which something changed that Claims reads.
func changedClaim() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, now := e.ObjectOld.(*corev1.PersistentVolumeClaim), e.ObjectNew
			claim := now.(*corev1.PersistentVolumeClaim)
			return before.UID != claim.UID || before.Status.Phase != claim.Status.Phase ||
				!maps.Equal(before.Annotations, claim.Annotations)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// annotated selects objects that are new, or whose annotations changed.
func annotated() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
				!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// reclaims returns whether the driver of a CSIAddonsNode can reclaim space. The status contains
// that also while the sidecar is not connected.
func reclaims(node *v1alpha1.CSIAddonsNode) bool {
	return slices.Contains(node.Status.Capabilities, connection.ReclaimOnline) ||
		slices.Contains(node.Status.Capabilities, connection.ReclaimOffline)
}

// targetOf returns the name of the claim of a ReclaimSpaceCronJob.
func targetOf(o client.Object) string {
	return o.(*v1alpha1.ReclaimSpaceCronJob).Spec.JobTemplate.Spec.Target.PersistentVolumeClaim
}

// unusual returns the name of the claim of a ReclaimSpaceCronJob, if the latter does not have the
// name that this controller chooses: an index of all would be large.
func unusual(o client.Object) []string {
	target := targetOf(o)
	if o.GetName() == appended(target, cronJobSuffix) {
		return nil
	}
	return []string{target}
}

// claimsOf returns requests for the claim of a ReclaimSpaceCronJob, and for the claim whose
// ReclaimSpaceCronJob would have this name.
func claimsOf(_ context.Context, o client.Object) []reconcile.Request {
	names := []string{targetOf(o)}
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == claimKind {
		names = append(names, owner.Name)
	}
	if name, ok := strings.CutSuffix(o.GetName(), cronJobSuffix); ok {
		names = append(names, name)
	}
	var requests []reconcile.Request
	for _, name := range names {
		if name != "" {
			requests = append(requests, reconcile.Request{
				NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name},
			})
		}
	}
	return requests
}
