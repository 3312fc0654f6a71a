package connection

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
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
