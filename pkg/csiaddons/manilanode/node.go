// Package manilanode serves CSI-Addons in the pods of Manila's node service: it returns the
// addresses of the node. The sidecar links it, so it must not need OpenStack.
package manilanode

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/csi-addons/spec/lib/go/fence"
	spec "github.com/csi-addons/spec/lib/go/identity"
	"go4.org/netipx"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/identity"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// Node serves fence.FenceController. Only the controller service fences.
type Node struct {
	fence.UnimplementedFenceControllerServer

	// Driver is the name of the CSI driver.
	Driver string
	// Name is the name of the Node, and Defaults its addresses, which it uses unless the request
	// names the storage networks.
	Name     string
	Defaults []net.IP
	// Addresses returns the addresses of the network interfaces; net.InterfaceAddrs.
	Addresses func() ([]net.Addr, error)
}

// NewServer returns a server of CSI-Addons for a node.
func NewServer(node *Node) *grpc.Server {
	server := grpc.NewServer()
	fence.RegisterFenceControllerServer(server, node)
	spec.RegisterIdentityServer(server, identity.Service{
		Driver: node.Driver, Kind: spec.Capability_Service_NODE_SERVICE,
		Operation: identity.Fences(spec.Capability_NetworkFence_GET_CLIENTS_TO_FENCE),
	})
	return server
}

// GetFenceClients returns the addresses of this node in the networks of the parameter
// storageNetworks. Without the parameter it returns the addresses of the Node.
func (n *Node) GetFenceClients(_ context.Context, request *fence.GetFenceClientsRequest,
) (*fence.GetFenceClientsResponse, error) {
	if err := v1alpha1.CheckManilaParameters(request.GetParameters()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	addresses := n.Defaults
	if text := request.GetParameters()[v1alpha1.StorageNetworksParameter]; text != "" {
		var err error
		if addresses, err = n.inside(text); err != nil {
			return nil, err
		}
	}
	client := &fence.ClientDetails{Id: n.Name}
	for _, address := range addresses {
		client.Addresses = append(client.Addresses, &fence.CIDR{Cidr: networkOf(address).String()})
	}
	return &fence.GetFenceClientsResponse{Clients: []*fence.ClientDetails{client}}, nil
}

func (n *Node) inside(list string) ([]net.IP, error) {
	var networks []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		network, err := wire.ParseNetwork(strings.TrimSpace(text))
		if err != nil || len(networks) == wire.MaxNetworks {
			return nil, status.Errorf(codes.InvalidArgument,
				"parameter %s is not a list of at most %d CIDRs", v1alpha1.StorageNetworksParameter,
				wire.MaxNetworks)
		}
		networks = append(networks, network)
	}
	found, err := n.Addresses()
	if err != nil {
		return nil, status.Errorf(codes.Internal, "reading the addresses of the node: %v", err)
	}
	var addresses []net.IP
	for _, f := range found {
		if ip, ok := f.(*net.IPNet); ok && slices.ContainsFunc(networks, networkOf(ip.IP).Overlaps) {
			addresses = append(addresses, ip.IP)
		}
	}
	if len(addresses) == 0 {
		return nil, status.Errorf(codes.FailedPrecondition,
			"node %s has no address in the networks of parameter %s", n.Name,
			v1alpha1.StorageNetworksParameter)
	}
	return addresses, nil
}

func networkOf(ip net.IP) netip.Prefix {
	address, _ := netipx.FromStdIP(ip) // without an address the network overlaps no other
	return netip.PrefixFrom(address, address.BitLen())
}
