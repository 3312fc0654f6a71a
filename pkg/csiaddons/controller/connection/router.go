package connection

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// Router chooses the sidecar for an operation.
type Router struct {
	Pool *Pool
	// Leases reads Leases from the API server.
	Leases client.Reader
}

// OnNode returns the sidecar of a driver on a node, or nil if no connected sidecar there has all
// capabilities.
func (r *Router) OnNode(driver, node string, capabilities ...string) *Sidecar {
	found := r.Pool.Find(func(s *Sidecar) bool {
		return s.Driver == driver && s.Node == node && s.Has(capabilities...)
	})
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// Leader returns the sidecar of the pod that is the leader of a driver and has all capabilities, or
// nil if the controller is not connected to it. The Lease of the driver names the pod.
func (r *Router) Leader(ctx context.Context, driver string, capabilities ...string,
) (*Sidecar, error) {
	candidates := r.Pool.Find(func(s *Sidecar) bool {
		return s.Driver == driver && s.Has(ControllerService) && s.Has(capabilities...)
	})
	var namespaces []string
	for _, candidate := range candidates {
		if !slices.Contains(namespaces, candidate.Pod.Namespace) {
			namespaces = append(namespaces, candidate.Pod.Namespace)
		}
	}
	for _, namespace := range namespaces {
		lease := &coordinationv1.Lease{}
		name := types.NamespacedName{Namespace: namespace, Name: wire.LeaseName(driver)}
		err := r.Leases.Get(ctx, name, lease)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading Lease %s: %w", name, err)
		}
		leader := types.NamespacedName{
			Namespace: namespace, Name: ptr.Deref(lease.Spec.HolderIdentity, ""),
		}
		for _, candidate := range candidates {
			if candidate.Pod == leader {
				return candidate, nil
			}
		}
	}
	return nil, nil
}
