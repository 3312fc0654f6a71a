package sidecar

import (
	"context"

	spec "github.com/csi-addons/spec/lib/go/reclaimspace"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// reclaimSpace serves wire.ReclaimSpace. Errors of the driver reach the controller unchanged.
type reclaimSpace struct {
	wire.UnimplementedReclaimSpaceServer
	calls
	reader

	stagingPath string
}

// ControllerReclaimSpace calls the controller service of the driver.
func (r *reclaimSpace) ControllerReclaimSpace(
	ctx context.Context, request *wire.ReclaimSpaceRequest,
) (*wire.ReclaimSpaceResponse, error) {
	volume, secrets, err := r.volume(ctx, request.GetPvName())
	if err != nil {
		return nil, err
	}
	ctx, cancel := r.limit(ctx)
	defer cancel()
	answer, err := r.calls.driver.ControllerReclaimSpace.ControllerReclaimSpace(ctx,
		&spec.ControllerReclaimSpaceRequest{
			VolumeId: volume.Spec.CSI.VolumeHandle, Parameters: volume.Spec.CSI.VolumeAttributes,
			Secrets: secrets,
		})
	if err != nil {
		return nil, err
	}
	return usage(answer.GetPreUsage(), answer.GetPostUsage()), nil
}

// NodeReclaimSpace calls the driver on this node, where the volume is staged.
func (r *reclaimSpace) NodeReclaimSpace(ctx context.Context, request *wire.ReclaimSpaceRequest,
) (*wire.ReclaimSpaceResponse, error) {
	volume, secrets, err := r.volume(ctx, request.GetPvName())
	if err != nil {
		return nil, err
	}
	path := stagingPath(r.stagingPath, volume)
	ctx, cancel := r.limit(ctx)
	defer cancel()
	answer, err := r.calls.driver.NodeReclaimSpace.NodeReclaimSpace(ctx,
		&spec.NodeReclaimSpaceRequest{
			VolumeId: volume.Spec.CSI.VolumeHandle, VolumePath: path, StagingTargetPath: path,
			VolumeCapability: capability(volume), Secrets: secrets,
		})
	if err != nil {
		return nil, err
	}
	return usage(answer.GetPreUsage(), answer.GetPostUsage()), nil
}

// usage translates the usage that a driver reports. What it does not report stays empty.
func usage(pre, post *spec.StorageConsumption) *wire.ReclaimSpaceResponse {
	response := &wire.ReclaimSpaceResponse{}
	if pre != nil {
		response.PreUsage = &wire.StorageConsumption{UsageBytes: pre.GetUsageBytes()}
	}
	if post != nil {
		response.PostUsage = &wire.StorageConsumption{UsageBytes: post.GetUsageBytes()}
	}
	return response
}
