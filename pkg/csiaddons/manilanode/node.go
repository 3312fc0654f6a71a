// Package manilanode serves CSI-Addons in the pods of Manila's node service: it returns the
// addresses of the node. It contains what it shares with the controller service: how a request
// names networks, and which parameters it may have. The sidecar links it, so it must not need
// OpenStack.
package manilanode

import (
	"context"
	"fmt"
	"maps"
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
)

// Node serves fence.FenceController. Only the controller service fences.
type Node struct {
	fence.UnimplementedFenceControllerServer

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
		Driver: "manila.csi.openstack.org", Kind: spec.Capability_Service_NODE_SERVICE,
		Operation: identity.Fences(spec.Capability_NetworkFence_GET_CLIENTS_TO_FENCE),
	})
	return server
}

// GetFenceClients returns the addresses of this node in the networks of the parameter
// storageNetworks. Without the parameter it returns the addresses of the Node.
func (n *Node) GetFenceClients(_ context.Context, request *fence.GetFenceClientsRequest,
) (*fence.GetFenceClientsResponse, error) {
	if err := CheckParameters(request.GetParameters()); err != nil {
		return nil, err
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

// inside returns the addresses of the node in a list of networks.
func (n *Node) inside(list string) ([]net.IP, error) {
	var networks []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		network, err := ParseNetwork(strings.TrimSpace(text))
		if err != nil || len(networks) == MaxNetworks {
			return nil, status.Errorf(codes.InvalidArgument,
				"parameter %s is not a list of at most %d CIDRs", v1alpha1.StorageNetworksParameter,
				MaxNetworks)
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

// networkOf returns the network of one address.
func networkOf(ip net.IP) netip.Prefix {
	address, _ := netipx.FromStdIP(ip) // without an address the network overlaps no other
	return netip.PrefixFrom(address, address.BitLen())
}

// MaxNetworks limits the networks of one request.
const MaxNetworks = 1024

// ParseNetwork parses an address or a network. Host bits are removed.
func ParseNetwork(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil || network.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is not an address or a network", text)
	}
	return network.Masked(), nil
}

// CheckParameters refuses parameters that have no meaning. Some drivers read the ID of a storage
// cluster, and the controller treats NetworkFences with different IDs as independent. But here all
// NetworkFences change the same shares, so that the end of one would end the other.
func CheckParameters(given map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if key != v1alpha1.StorageNetworksParameter {
			return status.Errorf(codes.InvalidArgument, "the driver has no parameter %.63q, only %s. "+
				"Delete the NetworkFenceClass, and create it with the same name and without this parameter. "+
				"If the NetworkFence itself contains the parameter, replace it by one with a "+
				"NetworkFenceClass", key, v1alpha1.StorageNetworksParameter)
		}
	}
	return nil
}
