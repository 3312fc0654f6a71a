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
	found := r.Pool.OnNode(driver, node, capabilities...)
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// Leader returns the sidecar of the pod that is the leader of a driver and has all capabilities, or
// nil if the controller is not connected to it. The Lease of the driver names the pod.
func (r *Router) Leader(ctx context.Context, driver string, capabilities ...string,
) (*Sidecar, error) {
	candidates := r.Pool.OfDriver(driver, append([]string{ControllerService}, capabilities...)...)
	var namespaces []string
	for _, candidate := range candidates {
		if !slices.Contains(namespaces, candidate.Pod.Namespace) {
			namespaces = append(namespaces, candidate.Pod.Namespace)
		}
	}
	leaders, _, err := r.Leaders(ctx, driver, namespaces)
	if err != nil {
		return nil, err
	}
	return ofPods(candidates, leaders), nil
}

// Leaders returns the pods that hold the Lease of a driver in some namespaces, and whether there is
// such a Lease. Only pods with the controller service of the driver may write it.
func (r *Router) Leaders(ctx context.Context, driver string, namespaces []string,
) (leaders []types.NamespacedName, exists bool, err error) {
	for _, namespace := range namespaces {
		lease := &coordinationv1.Lease{}
		name := types.NamespacedName{Namespace: namespace, Name: wire.LeaseName(driver)}
		err := r.Leases.Get(ctx, name, lease)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("reading Lease %s: %w", name, err)
		}
		exists = true
		if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
			leaders = append(leaders, types.NamespacedName{Namespace: namespace, Name: holder})
		}
	}
	return leaders, exists, nil
}

// OfPods returns the sidecar of a driver in one of some pods, or nil if no connected sidecar there
// has all capabilities.
func (r *Router) OfPods(driver string, pods []types.NamespacedName, capabilities ...string,
) *Sidecar {
	return ofPods(r.Pool.OfDriver(driver, capabilities...), pods)
}

func ofPods(sidecars []*Sidecar, pods []types.NamespacedName) *Sidecar {
	for _, sidecar := range sidecars {
		if slices.Contains(pods, sidecar.Pod) {
			return sidecar
		}
	}
	return nil
}
