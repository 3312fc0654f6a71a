package fence

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// Limits of what a driver returns.
const (
	maxClients     = 256
	maxClientCIDRs = 64
	maxClientID    = 253 // bytes
)

// networks returns the addresses that the sidecar of a Node may report: those of the Node, and the
// storage networks of a class. A driver pod of one node must not name the addresses of another: an
// administrator would fence the wrong node.
func networks(node *corev1.Node, class *v1alpha1.NetworkFenceClass) ([]netip.Prefix, error) {
	var found []netip.Prefix
	for _, address := range addressesOf(node) {
		found = append(found, netip.PrefixFrom(address, address.BitLen()))
	}
	list := class.Spec.Parameters[v1alpha1.StorageNetworksParameter]
	if list == "" {
		return found, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		network, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, invalidf(ReasonInvalidClass, "the parameter %s of NetworkFenceClass %s is not a "+
				"list of CIDRs", v1alpha1.StorageNetworksParameter, class.Name)
		}
		found = append(found, network)
	}
	return found, nil
}

// read gets from a sidecar the clients of its node. The error is an *invalid if the answer is not
// about this node. Then the clients may contain the part that is valid.
func (c *Clients) read(ctx context.Context, sidecar *connection.Sidecar,
	class *v1alpha1.NetworkFenceClass,
) ([]v1alpha1.ClientDetail, error) {
	request, err := classRequest(class)
	if err != nil {
		return nil, err
	}
	allowed, err := c.allowed(ctx, sidecar, class)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, clientsTimeout)
	defer cancel()
	answer, err := sidecar.NetworkFence.GetFenceClients(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("asking pod %s for the clients of NetworkFenceClass %s: %w",
			sidecar.Pod, class.Name, err)
	}
	if len(answer.GetClients()) > maxClients {
		return nil, invalidf(reasonBadClients, "pod %s returns more than %d clients", sidecar.Pod,
			maxClients)
	}
	clients := []v1alpha1.ClientDetail{}
	for _, one := range answer.GetClients() {
		detail, err := detailOf(one, allowed)
		if err == nil && detail.ID != sidecar.Node && sidecar.Security == connection.Pinned {
			err = fmt.Errorf("its ID is %.64q instead of %s", detail.ID, sidecar.Node)
		}
		if err != nil {
			return nil, invalidf(reasonBadClients, "pod %s returns an invalid client for NetworkFenceClass "+
				"%s: %v", sidecar.Pod, class.Name, err)
		}
		clients = append(clients, detail)
	}
	if sidecar.Security != connection.Pinned {
		return clients, nil
	}
	return c.unshared(ctx, sidecar, clients)
}

// allowed returns the addresses that a sidecar may report. Those of a driver whose sidecars are not
// verified need not be addresses of the Node: nodes of OVN-Kubernetes reach Ceph from others.
func (c *Clients) allowed(ctx context.Context, sidecar *connection.Sidecar,
	class *v1alpha1.NetworkFenceClass,
) ([]netip.Prefix, error) {
	if sidecar.Security != connection.Pinned {
		return []netip.Prefix{
			netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0),
		}, nil
	}
	node := &corev1.Node{}
	if err := c.Client.Get(ctx, types.NamespacedName{Name: sidecar.Node}, node); err != nil {
		return nil, fmt.Errorf("reading the addresses of Node %s: %w", sidecar.Node, err)
	}
	return networks(node, class)
}

// detailOf returns a client. Its CIDRs are single addresses in the allowed networks. The IDs of
// clients of the CSI-Addons for Ceph are those of storage clusters.
func detailOf(one *wire.ClientDetails, allowed []netip.Prefix) (v1alpha1.ClientDetail, error) {
	detail := v1alpha1.ClientDetail{ID: one.GetId(), Cidrs: []string{}}
	if len(detail.ID) > maxClientID || len(one.GetCidrs()) > maxClientCIDRs {
		return detail, fmt.Errorf("an ID has more than %d bytes, or a client more than %d CIDRs",
			maxClientID, maxClientCIDRs)
	}
	for _, cidr := range one.GetCidrs() {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil || !prefix.IsSingleIP() {
			return detail, fmt.Errorf("%.64q is not the CIDR of one address", cidr)
		}
		address := prefix.Addr().Unmap()
		if !slices.ContainsFunc(allowed,
			func(network netip.Prefix) bool { return network.Contains(address) }) {
			return detail, fmt.Errorf("%s is not an address of the Node, and not in the parameter %s of "+
				"the class", prefix, v1alpha1.StorageNetworksParameter)
		}
		single := netip.PrefixFrom(address, address.BitLen())
		detail.Cidrs = append(detail.Cidrs, single.String())
	}
	return detail, nil
}
