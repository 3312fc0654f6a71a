package reclaimspace

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// offers is what the sidecars of a driver have declared. A sidecar can be old, or belong to an
// attacker, so what one declares counts only for the calls that it would serve.
type offers struct {
	// known says that a sidecar has declared capabilities.
	known bool
	// online and offline say that a sidecar can reclaim space on its node, or in the controller
	// service.
	online, offline bool
	// nodes says of the nodes that have a sidecar whether one can reclaim space there.
	nodes map[string]bool
	// pods says of the pods that have a sidecar whether its controller service can reclaim space.
	pods map[types.NamespacedName]bool
	// namespaces are those of the pods.
	namespaces []string
}

// offers reads the capabilities of a driver. They are in the status of its CSIAddonsNodes, so that
// they are known while a sidecar restarts.
func (r *Reconciler) offers(ctx context.Context, driver string) (offers, error) {
	var list v1alpha1.CSIAddonsNodeList
	err := r.Client.List(ctx, &list, client.MatchingFields{r.IndexDriver: driver},
		client.UnsafeDisableDeepCopy) // there may be thousands
	if err != nil {
		return offers{}, fmt.Errorf("listing CSIAddonsNodes: %w", err)
	}
	found := offers{nodes: map[string]bool{}, pods: map[types.NamespacedName]bool{}}
	for i := range list.Items {
		node := &list.Items[i]
		state := node.Status.State
		if !r.Drivers.Allows(driver, node.Namespace) || len(node.Status.Capabilities) == 0 ||
			// The controller has found that a failed one is not what it claims to be.
			state != v1alpha1.CSIAddonsNodeConnected && state != v1alpha1.CSIAddonsNodeRetrying {
			continue
		}
		has := func(name string) bool { return slices.Contains(node.Status.Capabilities, name) }
		online := has(connection.ReclaimOnline)
		offline := has(connection.ReclaimOffline) && has(connection.ControllerService)
		found.known = true
		if !slices.Contains(found.namespaces, node.Namespace) {
			found.namespaces = append(found.namespaces, node.Namespace)
		}
		found.online, found.offline = found.online || online, found.offline || offline
		if has(connection.NodeService) || online {
			name := node.Spec.Driver.NodeID
			found.nodes[name] = found.nodes[name] || online
		}
		if endpoint, err := wire.ParseEndpoint(node.Spec.Driver.EndPoint); err == nil {
			found.pods[types.NamespacedName{Namespace: node.Namespace, Name: endpoint.Pod}] = offline
		}
	}
	return found, nil
}

// able returns the nodes on which the driver may reclaim space: those whose sidecar can, and those
// without a sidecar.
func (o offers) able(nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
		can, known := o.nodes[node]
		return known && !can
	})
}

// leads returns whether the controller service in one of the pods can reclaim space, and whether it
// is known.
func (o offers) leads(leaders []types.NamespacedName) (can, known bool) {
	for _, pod := range leaders {
		does, found := o.pods[pod]
		can, known = can || does, known || found
	}
	return can, known
}
