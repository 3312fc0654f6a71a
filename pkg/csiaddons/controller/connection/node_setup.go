package connection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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

// Lost contains the CSIAddonsNodes of lost connections.
type Lost chan event.TypedGenericEvent[types.NamespacedName]

// SetUp adds the reconciler to a manager.
func (r *Reconciler) SetUp(ctx context.Context, m manager.Manager, lost Lost) error {
	for name, index := range map[string]client.IndexerFunc{
		indexPod: podOf,
		indexNode: func(o client.Object) []string {
			return []string{o.(*v1alpha1.CSIAddonsNode).Spec.Driver.NodeID}
		},
		IndexDriver: func(o client.Object) []string {
			return []string{o.(*v1alpha1.CSIAddonsNode).Spec.Driver.Name}
		},
	} {
		err := m.GetFieldIndexer().IndexField(ctx, &v1alpha1.CSIAddonsNode{}, name, index)
		if err != nil {
			return err
		}
	}
	changed := predicate.Or[client.Object](predicate.GenerationChangedPredicate{},
		predicate.AnnotationChangedPredicate{}, predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				return e.ObjectNew.GetDeletionTimestamp() != nil ||
					len(e.ObjectNew.GetOwnerReferences()) != len(e.ObjectOld.GetOwnerReferences())
			},
		})
	onlyDeleted := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
	return builder.ControllerManagedBy(m).Named("csiaddonsnode").
		For(&v1alpha1.CSIAddonsNode{}, builder.WithPredicates(changed)).
		Watches(&corev1.Pod{}, r.requests(func(o client.Object) client.ListOption {
			return client.MatchingFields{indexPod: o.GetNamespace() + "/" + o.GetName()}
		})).
		Watches(&corev1.Node{}, r.requests(func(o client.Object) client.ListOption {
			return client.MatchingFields{indexNode: o.GetName()}
		}), builder.WithPredicates(onlyDeleted)).
		WatchesRawSource(source.TypedChannel(lost, handler.TypedEnqueueRequestsFromMapFunc(
			func(_ context.Context, name types.NamespacedName) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: name}}
			}))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// podOf returns the pod that the endpoint of a CSIAddonsNode names.
func podOf(o client.Object) []string {
	endpoint, err := wire.ParseEndpoint(o.(*v1alpha1.CSIAddonsNode).Spec.Driver.EndPoint)
	if err != nil {
		return nil
	}
	return []string{endpoint.Namespace + "/" + endpoint.Pod}
}

// requests returns a handler that reconciles the CSIAddonsNodes that belong to an object.
func (r *Reconciler) requests(of func(client.Object) client.ListOption) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(
		func(ctx context.Context, o client.Object) []reconcile.Request {
			var nodes v1alpha1.CSIAddonsNodeList
			if err := r.Client.List(ctx, &nodes, of(o)); err != nil {
				return nil // the cache has stopped
			}
			requests := make([]reconcile.Request, 0, len(nodes.Items))
			for i := range nodes.Items {
				requests = append(requests, reconcile.Request{
					NamespacedName: client.ObjectKeyFromObject(&nodes.Items[i]),
				})
			}
			return requests
		})
}
