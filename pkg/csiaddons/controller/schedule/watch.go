package schedule

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

const (
	// indexClaim indexes ReclaimSpaceCronJobs by the name of their claim. It does not contain those
	// with the name that this controller chooses: an index of all would be large.
	indexClaim = "claim"
	// indexClass indexes claims by the name of their StorageClass.
	indexClass = "class"
	// annotationCut is the length to which the cache cuts an annotation, in bytes. A schedule that is
	// cut is still too long to be valid.
	annotationCut = 1 << 10
	// sweepInterval is the shortest time between two reconciliations of all claims.
	sweepInterval = 5 * time.Second
)

// Caches returns the options of the caches of the objects that Claims reads. The caches contain
// only the fields that it uses. Package reclaimspace finds the UID and the volume of a claim there.
func Caches() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.PersistentVolumeClaim{}: {Transform: cutAnnotated},
		&corev1.Namespace{}:             {Transform: cutAnnotated},
		&storagev1.StorageClass{}:       {Transform: cutAnnotated},
	}
}

// cutAnnotated removes what Claims does not read from an object with annotations, and cuts long
// annotations. The controller never writes such an object.
func cutAnnotated(object any) (any, error) {
	one, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	annotations := map[string]string{}
	for key, value := range one.GetAnnotations() {
		if slices.Contains(annotationKeys(), key) {
			annotations[key] = strings.Clone(value[:min(len(value), annotationCut)])
		}
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	one.SetAnnotations(annotations)
	one.SetManagedFields(nil)
	one.SetLabels(nil)
	one.SetFinalizers(nil)
	one.SetOwnerReferences(nil)
	if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
		spec := claim.Spec
		claim.Spec = corev1.PersistentVolumeClaimSpec{StorageClassName: spec.StorageClassName}
		// The API server does not limit it. One that is cut is still too long for a volume.
		volume := spec.VolumeName[:min(len(spec.VolumeName), validation.DNS1123SubdomainMaxLength+1)]
		claim.Spec.VolumeName = strings.Clone(volume)
		claim.Status = corev1.PersistentVolumeClaimStatus{Phase: claim.Status.Phase}
	}
	return object, nil
}

func annotationKeys() []string {
	return []string{
		v1alpha1.ReclaimSpaceScheduleAnnotation, v1alpha1.ReclaimSpaceEnableAnnotation,
		v1alpha1.ReclaimSpaceCronJobAnnotation, v1alpha1.ReclaimSpaceDriversAnnotation,
	}
}

// SetUp adds the reconciler to a manager.
func (c *Claims) SetUp(ctx context.Context, m manager.Manager) error {
	c.stale = make(chan struct{}, 1)
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
	inNamespace := c.claims(func(o client.Object) client.ListOption {
		return client.InNamespace(o.GetName())
	})
	ofClass := c.claims(func(o client.Object) client.ListOption {
		return client.MatchingFields{indexClass: o.GetName()}
	})
	return builder.ControllerManagedBy(m).Named("claimschedule").
		For(&corev1.PersistentVolumeClaim{}, builder.WithPredicates(changedClaim())).
		WatchesMetadata(&corev1.Namespace{}, inNamespace, builder.WithPredicates(annotated())).
		WatchesMetadata(&storagev1.StorageClass{}, ofClass, builder.WithPredicates(annotated())).
		Watches(&v1alpha1.ReclaimSpaceCronJob{}, handler.EnqueueRequestsFromMapFunc(claimsOf),
			builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{},
				predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&v1alpha1.CSIAddonsNode{}, handler.EnqueueRequestsFromMapFunc(
			func(context.Context, client.Object) []reconcile.Request {
				c.markStale()
				return nil
			}), builder.WithPredicates(startsToReclaim())).
		WatchesRawSource(source.Func(c.sweep)).
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

// startsToReclaim selects CSIAddonsNodes whose driver is found to reclaim space.
func startsToReclaim() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			return reclaims(e.Object.(*v1alpha1.CSIAddonsNode))
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			return reclaims(e.ObjectNew.(*v1alpha1.CSIAddonsNode)) &&
				!reclaims(e.ObjectOld.(*v1alpha1.CSIAddonsNode))
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

// claims returns a handler that reconciles the claims that belong to an object.
func (c *Claims) claims(of func(client.Object) client.ListOption) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(
		func(ctx context.Context, o client.Object) []reconcile.Request { return c.list(ctx, of(o)) })
}

// list returns requests for the claims that the options select.
func (c *Claims) list(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var claims corev1.PersistentVolumeClaimList
	err := c.Client.List(ctx, &claims, append(options, client.UnsafeDisableDeepCopy)...)
	if err != nil {
		return nil // the cache has stopped
	}
	requests := make([]reconcile.Request, 0, len(claims.Items))
	for i := range claims.Items {
		requests = append(requests,
			reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claims.Items[i])})
	}
	return requests
}

// targetOf returns the name of the claim of a ReclaimSpaceCronJob.
func targetOf(o client.Object) string {
	return o.(*v1alpha1.ReclaimSpaceCronJob).Spec.JobTemplate.Spec.Target.PersistentVolumeClaim
}

// unusual returns the name of the claim of a ReclaimSpaceCronJob, if the latter does not have the
// name that this controller chooses.
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

// markStale lets all claims be reconciled. It does not block.
func (c *Claims) markStale() {
	select {
	case c.stale <- struct{}{}:
	default: // they will be
	}
}

// sweep reconciles all claims when a driver is found to reclaim space, or the precedence changes,
// until ctx is done.
func (c *Claims) sweep(ctx context.Context,
	queue workqueue.TypedRateLimitingInterface[reconcile.Request],
) error {
	precedence := c.Options.Get().Precedence
	go func() {
		for {
			changed := c.Options.Changed()
			if now := c.Options.Get().Precedence; now != precedence {
				precedence = now
				c.markStale()
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
				continue
			case <-c.stale:
			}
			requests := c.list(ctx)
			log.FromContext(ctx).V(1).Info("Reconciling all claims", "claims", len(requests))
			for _, request := range requests {
				queue.Add(request)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(sweepInterval):
			}
		}
	}()
	return nil
}
