package operator

import (
	"context"
	"slices"
	"sync"

	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/resource/resourcemerge"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
)

// generationCache returns the generations that this process applied, even if the cache of the
// ClusterCSIDriver is older. library-go updates a workload whose generation differs from the
// status. With an older cache it would send an update without a change, and an event, after each
// change of a workload.
type generationCache struct {
	v1helpers.OperatorClientWithFinalizers

	mu      sync.Mutex
	applied []opv1.GenerationStatus
}

// ApplyOperatorStatus stores the generations of the status. They are correct even if the API server
// rejects the status.
func (c *generationCache) ApplyOperatorStatus(
	ctx context.Context, fieldManager string, status *applyopv1.OperatorStatusApplyConfiguration,
) error {
	if status != nil {
		c.store(status.Generations)
	}
	return c.OperatorClientWithFinalizers.ApplyOperatorStatus(ctx, fieldManager, status)
}

func (c *generationCache) store(generations []applyopv1.GenerationStatusApplyConfiguration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range generations {
		resourcemerge.SetGeneration(&c.applied, opv1.GenerationStatus{
			Group: ptr.Deref(g.Group, ""), Resource: ptr.Deref(g.Resource, ""),
			Namespace: ptr.Deref(g.Namespace, ""), Name: ptr.Deref(g.Name, ""),
			LastGeneration: ptr.Deref(g.LastGeneration, 0), Hash: ptr.Deref(g.Hash, ""),
		})
	}
}

func (c *generationCache) GetOperatorState() (
	*opv1.OperatorSpec, *opv1.OperatorStatus, string, error,
) {
	spec, cached, version, err := c.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil || cached == nil {
		return spec, cached, version, err
	}
	status := *cached
	status.Generations = slices.Clone(cached.Generations)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.applied {
		resourcemerge.SetGeneration(&status.Generations, g)
	}
	return spec, &status, version, nil
}
