package sidecar

import (
	"context"

	spec "github.com/csi-addons/spec/lib/go/reclaimspace"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// reclaimSpace serves wire.ReclaimSpace. Errors of the driver reach the controller.
type reclaimSpace struct {
	wire.UnimplementedReclaimSpaceServer

	driver      *driver.Client
	reader      driver.Reader
	stagingPath string
}

// ControllerReclaimSpace calls the controller service of the driver.
func (r *reclaimSpace) ControllerReclaimSpace(
	ctx context.Context, request *wire.ReclaimSpaceRequest,
) (*wire.ReclaimSpaceResponse, error) {
	found, err := r.reader.Volume(ctx, request.GetPvName())
	if err != nil {
		return nil, err
	}
	answer, err := r.driver.ControllerReclaimSpace.ControllerReclaimSpace(ctx,
		&spec.ControllerReclaimSpaceRequest{
			VolumeId: found.ID(), Parameters: found.Attributes(), Secrets: found.Secrets,
		})
	if err != nil {
		return nil, err
	}
	return usage(answer.GetPreUsage(), answer.GetPostUsage()), nil
}

// NodeReclaimSpace calls the driver on this node, where the volume is staged.
func (r *reclaimSpace) NodeReclaimSpace(ctx context.Context, request *wire.ReclaimSpaceRequest,
) (*wire.ReclaimSpaceResponse, error) {
	found, err := r.reader.Volume(ctx, request.GetPvName())
	if err != nil {
		return nil, err
	}
	path := found.StagingPath(r.stagingPath)
	answer, err := r.driver.NodeReclaimSpace.NodeReclaimSpace(ctx,
		&spec.NodeReclaimSpaceRequest{
			VolumeId: found.ID(), VolumePath: path, StagingTargetPath: path,
			VolumeCapability: found.Capability(), Secrets: found.Secrets,
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
