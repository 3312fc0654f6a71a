package connection

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// Release removes a finalizer that the controller of the CSI-Addons for Ceph has set. This
// controller needs none.
func Release(ctx context.Context, kube client.Client, object client.Object, finalizer string,
) error {
	changed := object.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(changed, finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := kube.Patch(ctx, changed, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("removing the finalizer %s of %T %s: %w", finalizer,
			object, client.ObjectKeyFromObject(object), err))
	}
	return nil
}

// ReleaseClasses adds a reconciler to a manager that removes the finalizer of the controller of the
// CSI-Addons for Ceph from NetworkFenceClasses of these drivers. Without that controller, they
// would never be deleted.
func ReleaseClasses(m manager.Manager, drivers Drivers) error {
	deleted := predicate.NewPredicateFuncs(func(o client.Object) bool {
		driver := o.(*v1alpha1.NetworkFenceClass).Spec.Provisioner
		return o.GetDeletionTimestamp() != nil && len(drivers[driver].Namespaces) > 0
	})
	return builder.ControllerManagedBy(m).Named("networkfenceclass").
		For(&v1alpha1.NetworkFenceClass{}, builder.WithPredicates(deleted)).
		Complete(reconcile.AsReconciler(m.GetClient(), reconcile.TypedFunc[*v1alpha1.NetworkFenceClass](
			func(ctx context.Context, class *v1alpha1.NetworkFenceClass) (reconcile.Result, error) {
				return reconcile.Result{}, Release(ctx, m.GetClient(), class,
					v1alpha1.CSIAddonsNodeFinalizer)
			})))
}
