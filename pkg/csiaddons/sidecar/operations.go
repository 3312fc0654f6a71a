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

// registerIdentity serves the identity of the driver.
func registerIdentity(server *grpc.Server, of identity.IdentityClient) {
	wire.Register(server, identity.Identity_ServiceDesc.ServiceName,
		passedOn(identity.Identity_GetIdentity_FullMethodName, of.GetIdentity),
		passedOn(identity.Identity_GetCapabilities_FullMethodName, of.GetCapabilities),
		passedOn(identity.Identity_Probe_FullMethodName, of.Probe))
}

func passedOn[In, Out any](method wire.Method[In, Out],
	call func(context.Context, *In, ...grpc.CallOption) (*Out, error),
) grpc.MethodDesc {
	return method.By(func(ctx context.Context, in *In) (*Out, error) { return call(ctx, in) })
}

// reclaimSpace serves wire.ReclaimSpace. Errors of the driver reach the controller.
type reclaimSpace struct {
	driver      *driver.Client
	reader      driver.Reader
	stagingPath string
}

// controllerReclaimSpace calls the controller service of the driver.
func (r *reclaimSpace) controllerReclaimSpace(
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
	return &wire.ReclaimSpaceResponse{
		PreUsage: answer.GetPreUsage(), PostUsage: answer.GetPostUsage(),
	}, err
}

// nodeReclaimSpace calls the driver on this node, where the volume is staged.
func (r *reclaimSpace) nodeReclaimSpace(ctx context.Context, request *wire.ReclaimSpaceRequest,
) (*wire.ReclaimSpaceResponse, error) {
	found, err := r.reader.Volume(ctx, request.GetPvName())
	if err != nil {
		return nil, err
	}
	path := found.StagingPath(r.stagingPath)
	return r.driver.NodeReclaimSpace.NodeReclaimSpace(ctx, &reclaimspace.NodeReclaimSpaceRequest{
		VolumeId: found.ID(), VolumePath: path, StagingTargetPath: path,
		VolumeCapability: found.Capability(), Secrets: found.Secrets,
	})
}

// networkFence serves wire.NetworkFence. Errors of the driver about CIDRs reach the controller.
type networkFence struct {
	driver *driver.Client
	reader driver.Reader
}

// fence revokes the access of clients to the storage.
func (n *networkFence) fence(ctx context.Context, request *wire.NetworkFenceRequest,
) (*wire.NetworkFenceResponse, error) {
	secrets, err := n.reader.Secrets(ctx, request.GetSecretNamespace(), request.GetSecretName())
	if err != nil {
		return nil, err
	}
	var trailer metadata.MD
	answer, err := n.driver.Fence.FenceClusterNetwork(ctx, &fence.FenceClusterNetworkRequest{
		Parameters: request.GetParameters(), Secrets: secrets, Cidrs: cidrs(request),
	}, grpc.Trailer(&trailer))
	if changed := trailer.Get(wire.ChangedSharesTrailer); len(changed) > 0 {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(wire.ChangedSharesTrailer, changed[0]))
	}
	return answer, err
}

// unfence restores the access.
func (n *networkFence) unfence(ctx context.Context, request *wire.NetworkFenceRequest,
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

// clients returns the clients of this node.
func (n *networkFence) clients(ctx context.Context, request *wire.FenceClientsRequest,
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
