package sidecar

import (
	"context"
	"net/netip"

	spec "github.com/csi-addons/spec/lib/go/fence"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// maxCIDRs is the maximum number of CIDRs in one request.
const maxCIDRs = 1024

// networkFence serves wire.NetworkFence. Errors of the driver reach the controller.
type networkFence struct {
	wire.UnimplementedNetworkFenceServer

	driver *driver.Client
	reader driver.Reader
}

// FenceClusterNetwork revokes the access of clients to the storage.
func (n *networkFence) FenceClusterNetwork(ctx context.Context, request *wire.NetworkFenceRequest,
) (*wire.NetworkFenceResponse, error) {
	clients, secrets, err := n.clients(ctx, request)
	if err != nil {
		return nil, err
	}
	var trailer metadata.MD
	_, err = n.driver.Fence.FenceClusterNetwork(ctx, &spec.FenceClusterNetworkRequest{
		Parameters: request.GetParameters(), Secrets: secrets, Cidrs: clients,
	}, grpc.Trailer(&trailer))
	if changed := trailer.Get(wire.ChangedSharesTrailer); len(changed) > 0 {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(wire.ChangedSharesTrailer, changed[0]))
	}
	return &wire.NetworkFenceResponse{}, err
}

// UnFenceClusterNetwork restores the access.
func (n *networkFence) UnFenceClusterNetwork(ctx context.Context, request *wire.NetworkFenceRequest,
) (*wire.NetworkFenceResponse, error) {
	clients, secrets, err := n.clients(ctx, request)
	if err != nil {
		return nil, err
	}
	_, err = n.driver.Fence.UnfenceClusterNetwork(ctx, &spec.UnfenceClusterNetworkRequest{
		Parameters: request.GetParameters(), Secrets: secrets, Cidrs: clients,
	})
	return &wire.NetworkFenceResponse{}, err
}

// clients returns the CIDRs of a request, and the content of its Secret.
func (n *networkFence) clients(ctx context.Context, request *wire.NetworkFenceRequest,
) ([]*spec.CIDR, map[string]string, error) {
	given := request.GetCidrs()
	if len(given) == 0 || len(given) > maxCIDRs {
		return nil, nil, status.Errorf(codes.InvalidArgument,
			"the request contains %d CIDRs: it must contain between 1 and %d", len(given), maxCIDRs)
	}
	clients := make([]*spec.CIDR, 0, len(given))
	for _, cidr := range given {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return nil, nil, status.Errorf(codes.InvalidArgument, "%.64q is not a CIDR", cidr)
		}
		clients = append(clients, &spec.CIDR{Cidr: cidr})
	}
	secrets, err := n.reader.Secrets(ctx, request.GetSecretNamespace(), request.GetSecretName())
	return clients, secrets, err
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
