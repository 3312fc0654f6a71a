package sidecar

import (
	"context"

	spec "github.com/csi-addons/spec/lib/go/fence"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

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
	_, err = n.driver.Fence.FenceClusterNetwork(ctx, &spec.FenceClusterNetworkRequest{
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
	_, err = n.driver.Fence.UnfenceClusterNetwork(ctx, &spec.UnfenceClusterNetworkRequest{
		Parameters: request.GetParameters(), Secrets: secrets, Cidrs: cidrs(request),
	})
	return &wire.NetworkFenceResponse{}, err
}

// cidrs returns the CIDRs of a request.
func cidrs(request *wire.NetworkFenceRequest) []*spec.CIDR {
	all := make([]*spec.CIDR, 0, len(request.GetCidrs()))
	for _, cidr := range request.GetCidrs() {
		all = append(all, &spec.CIDR{Cidr: cidr})
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
	answer, err := n.driver.Fence.GetFenceClients(ctx, &spec.GetFenceClientsRequest{
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
