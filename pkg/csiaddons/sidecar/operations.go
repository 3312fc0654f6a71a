package sidecar

import (
	"context"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// identityService passes the identity of the driver on.
type identityService struct {
	identity.UnimplementedIdentityServer

	driver *driver.Client
}

// GetIdentity returns the name and the version of the driver.
func (i *identityService) GetIdentity(ctx context.Context, request *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	return i.driver.Identity.GetIdentity(ctx, request)
}

// GetCapabilities returns the capabilities of the driver.
func (i *identityService) GetCapabilities(
	ctx context.Context, request *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	return i.driver.Identity.GetCapabilities(ctx, request)
}

// Probe returns whether the driver is ready.
func (i *identityService) Probe(ctx context.Context, request *identity.ProbeRequest,
) (*identity.ProbeResponse, error) {
	return i.driver.Identity.Probe(ctx, request)
}

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
		&reclaimspace.ControllerReclaimSpaceRequest{
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
		&reclaimspace.NodeReclaimSpaceRequest{
			VolumeId: found.ID(), VolumePath: path, StagingTargetPath: path,
			VolumeCapability: found.Capability(), Secrets: found.Secrets,
		})
	if err != nil {
		return nil, err
	}
	return usage(answer.GetPreUsage(), answer.GetPostUsage()), nil
}

// usage translates the usage that a driver reports. What it does not report stays empty.
func usage(pre, post *reclaimspace.StorageConsumption) *wire.ReclaimSpaceResponse {
	response := &wire.ReclaimSpaceResponse{}
	if pre != nil {
		response.PreUsage = &wire.StorageConsumption{UsageBytes: pre.GetUsageBytes()}
	}
	if post != nil {
		response.PostUsage = &wire.StorageConsumption{UsageBytes: post.GetUsageBytes()}
	}
	return response
}

// networkFence serves wire.NetworkFence. Errors of the driver, which validates the CIDRs, reach the
// controller.
type networkFence struct {
	wire.UnimplementedNetworkFenceServer

	driver *driver.Client
	reader driver.Reader
}

// FenceClusterNetwork revokes the access of clients to the storage.
func (n *networkFence) FenceClusterNetwork(ctx context.Context, request *wire.NetworkFenceRequest,
) (*wire.NetworkFenceResponse, error) {
	secrets, err := n.reader.Secrets(ctx, request.GetSecretNamespace(), request.GetSecretName())
	if err != nil {
		return nil, err
	}
	var trailer metadata.MD
	_, err = n.driver.Fence.FenceClusterNetwork(ctx, &fence.FenceClusterNetworkRequest{
		Parameters: request.GetParameters(), Secrets: secrets, Cidrs: cidrs(request),
	}, grpc.Trailer(&trailer))
	if changed := trailer.Get(wire.ChangedSharesTrailer); len(changed) > 0 {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(wire.ChangedSharesTrailer, changed[0]))
	}
	return &wire.NetworkFenceResponse{}, err
}

// UnFenceClusterNetwork restores the access.
func (n *networkFence) UnFenceClusterNetwork(ctx context.Context, request *wire.NetworkFenceRequest,
) (*wire.NetworkFenceResponse, error) {
	secrets, err := n.reader.Secrets(ctx, request.GetSecretNamespace(), request.GetSecretName())
	if err != nil {
		return nil, err
	}
	_, err = n.driver.Fence.UnfenceClusterNetwork(ctx, &fence.UnfenceClusterNetworkRequest{
		Parameters: request.GetParameters(), Secrets: secrets, Cidrs: cidrs(request),
	})
	return &wire.NetworkFenceResponse{}, err
}

func cidrs(request *wire.NetworkFenceRequest) []*fence.CIDR {
	all := make([]*fence.CIDR, 0, len(request.GetCidrs()))
	for _, cidr := range request.GetCidrs() {
		all = append(all, &fence.CIDR{Cidr: cidr})
	}
	return all
}

// GetFenceClients returns the clients of this node.
func (n *networkFence) GetFenceClients(ctx context.Context, request *wire.FenceClientsRequest,
) (*wire.FenceClientsResponse, error) {
	secrets, err := n.reader.Secrets(ctx, request.GetSecretNamespace(), request.GetSecretName())
	if err != nil {
		return nil, err
	}
	answer, err := n.driver.Fence.GetFenceClients(ctx, &fence.GetFenceClientsRequest{
		Parameters: request.GetParameters(), Secrets: secrets,
	})
	if err != nil {
		return nil, err
	}
	response := &wire.FenceClientsResponse{}
	for _, client := range answer.GetClients() {
		details := &wire.ClientDetails{Id: client.GetId()}
		for _, address := range client.GetAddresses() {
			details.Cidrs = append(details.Cidrs, address.GetCidr())
		}
		response.Clients = append(response.Clients, details)
	}
	return response, nil
}
