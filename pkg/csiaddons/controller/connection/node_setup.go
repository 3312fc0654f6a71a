package connection

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// workers is the number of CSIAddonsNodes that are reconciled at the same time. A sidecar that does
// not answer occupies one for some seconds, and one of 5,000 such sidecars every five minutes.
const workers = 100

// Names of the indexes of CSIAddonsNodes.
const (
	indexPod  = "pod"
	indexNode = "node"
	// IndexDriver indexes CSIAddonsNodes by the name of the driver.
	IndexDriver = "driver"
)

// SetUp adds the reconciler to a manager.
func (r *Reconciler) SetUp(ctx context.Context, m manager.Manager) error {
	r.retries = workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](
		r.RetryDelay, maxRetryDelay)
	for name, index := range map[string]client.IndexerFunc{
		indexPod: podOf, indexNode: nodeOf, IndexDriver: driverOf,
	} {
		err := m.GetFieldIndexer().IndexField(ctx, &v1alpha1.CSIAddonsNode{}, name, index)
		if err != nil {
			return err
		}
	}
	changed := predicate.Or[client.Object](predicate.GenerationChangedPredicate{},
		predicate.AnnotationChangedPredicate{}, predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				return len(e.ObjectNew.GetOwnerReferences()) != len(e.ObjectOld.GetOwnerReferences())
			},
		})
	onlyDeleted := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
	all := &v1alpha1.CSIAddonsNodeList{}
	return builder.ControllerManagedBy(m).Named("csiaddonsnode").
		For(&v1alpha1.CSIAddonsNode{}, builder.WithPredicates(changed)).
		Watches(&v1alpha1.CSIAddonsNode{}, handler.Funcs{
			CreateFunc: controllersFirst, UpdateFunc: r.checkAgain,
		}).
		Watches(&corev1.Pod{}, Belonging(r.Client, all, func(o client.Object) client.ListOption {
			return client.MatchingFields{indexPod: o.GetNamespace() + "/" + o.GetName()}
		})).
		Watches(&corev1.Node{}, Belonging(r.Client, all, func(o client.Object) client.ListOption {
			return client.MatchingFields{indexNode: o.GetName()}
		}), builder.WithPredicates(onlyDeleted)).
		WatchesRawSource(source.Func(func(_ context.Context, q Queue) error {
			r.Pool.lost = func(name types.NamespacedName, up time.Duration) {
				Enqueue(q, name, First, r.delay(name, up))
			}
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// controllersFirst connects to sidecars beside a controller service before those on thousands of
// nodes: after a restart of the controller, a fence waits for the first.
func controllersFirst(_ context.Context, e event.CreateEvent, q Queue) {
	status := e.Object.(*v1alpha1.CSIAddonsNode).Status // of the process before
	if slices.Contains(status.Capabilities, ControllerService) {
		Enqueue(q, client.ObjectKeyFromObject(e.Object), First, 0)
	}
}

// checkAgain reconciles a CSIAddonsNode once more after its state Connected ends. The next
// Reconcile may have read that state from an outdated cache, have connected, and have found nothing
// to write.
func (r *Reconciler) checkAgain(_ context.Context, e event.UpdateEvent, q Queue) {
	connected := func(o client.Object) bool {
		status := o.(*v1alpha1.CSIAddonsNode).Status
		return status.State == v1alpha1.CSIAddonsNodeConnected && status.Reason == ReasonConnected
	}
	if connected(e.ObjectOld) && !connected(e.ObjectNew) {
		Enqueue(q, client.ObjectKeyFromObject(e.ObjectNew), last, r.RetryDelay)
	}
}

// podOf returns the pod that the endpoint of a CSIAddonsNode names.
func podOf(o client.Object) []string {
	endpoint, err := wire.ParseEndpoint(o.(*v1alpha1.CSIAddonsNode).Spec.Driver.EndPoint)
	if err != nil {
		return nil
	}
	return []string{endpoint.Namespace + "/" + endpoint.Pod}
}

func nodeOf(o client.Object) []string {
	return []string{o.(*v1alpha1.CSIAddonsNode).Spec.Driver.NodeID}
}

func driverOf(o client.Object) []string {
	return []string{o.(*v1alpha1.CSIAddonsNode).Spec.Driver.Name}
}
