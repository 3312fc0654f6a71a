package connection

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// WriteStatus writes the status of an object. It fails if the object has changed since it was read,
// so a decision that depends on an outdated object has no effect. Afterwards, the object lacks the
// fields that its CustomResourceDefinition does not contain.
func WriteStatus(ctx context.Context, kube client.Client, object client.Object) error {
	return statusError(object, kube.Status().Update(ctx, object))
}

// MergeStatus writes what has changed in the status of an object since it was read as before, also
// if somebody else has changed the object. It returns whether there was something to write. It
// ignores that the object does not exist any more.
func MergeStatus(ctx context.Context, kube client.Client, before, changed client.Object,
) (bool, error) {
	if equality.Semantic.DeepEqual(before, changed) {
		return false, nil
	}
	err := kube.Status().Patch(ctx, changed, client.MergeFrom(before))
	return err == nil, client.IgnoreNotFound(statusError(changed, err))
}

func statusError(object client.Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing the status of %T %s: %w", object, client.ObjectKeyFromObject(object),
		err)
}

// maxMessage limits a message that may contain text of a sidecar or a driver, in bytes. The API
// server refuses events with more than 1,024 bytes, and callers add words.
const maxMessage = 900

// Describe returns the text of an error of a call, for a status or an event.
func Describe(err error) string {
	message := err.Error()
	if found, ok := status.FromError(err); ok {
		message = found.Code().String() + ": " + found.Message()
	}
	if len(message) > maxMessage {
		message = message[:maxMessage] + "..."
	}
	return strings.ToValidUTF8(message, "?")
}

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
