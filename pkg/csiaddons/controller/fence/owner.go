package fence

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// maxClientAddresses limits the addresses of a node for a class, so that a node cannot take those
// of a storage network from nodes that join later. With temporary addresses, a node has about ten
// in a network of IPv6. By default, a share of Manila has no room for the rules of more than 20.
const maxClientAddresses = 32

// networks returns the addresses that a sidecar may report: those of its Node, and the storage
// networks of a class. A driver pod of one node must not name the addresses of another: an
// administrator would fence the wrong node. Sidecars of a driver that is not verified may report
// others: nodes of OVN-Kubernetes reach Ceph from them.
func (c *Clients) networks(ctx context.Context, sidecar *connection.Sidecar,
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
	var found []netip.Prefix
	for _, one := range node.Status.Addresses {
		if address, err := netip.ParseAddr(one.Address); err == nil { // others are names
			found = append(found, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
		}
	}
	list := class.Spec.Parameters[v1alpha1.StorageNetworksParameter]
	if list == "" {
		return found, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		network, err := wire.ParseCIDR(strings.TrimSpace(text))
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
	allowed, err := c.networks(ctx, sidecar, class)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, clientsTimeout)
	defer cancel()
	answer, err := wire.GetFenceClients.Call(ctx, sidecar.Connection, request)
	if err != nil {
		return nil, fmt.Errorf("asking pod %s for the clients of NetworkFenceClass %s: %w",
			sidecar.Pod, class.Name, err)
	}
	clients, addresses := []v1alpha1.ClientDetail{}, 0
	for _, one := range answer.GetClients() {
		if addresses += len(one.GetCidrs()); addresses > maxClientAddresses {
			return nil, invalidf(reasonBadClients, "pod %s returns more than %d addresses of Node %s for "+
				"NetworkFenceClass %s: none of them counts", sidecar.Pod, maxClientAddresses, sidecar.Node,
				class.Name)
		}
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

// detailOf returns a client. Its CIDRs are single addresses in the allowed networks. The IDs of
// clients of the CSI-Addons for Ceph are those of storage clusters.
func detailOf(one *wire.ClientDetails, allowed []netip.Prefix) (v1alpha1.ClientDetail, error) {
	detail := v1alpha1.ClientDetail{ID: one.GetId(), Cidrs: []string{}}
	for _, cidr := range one.GetCidrs() {
		prefix, err := wire.ParseCIDR(cidr)
		if err != nil || !prefix.IsSingleIP() {
			return detail, fmt.Errorf("%.64q is not the CIDR of one address", cidr)
		}
		address := prefix.Addr()
		if !slices.ContainsFunc(allowed,
			func(network netip.Prefix) bool { return network.Contains(address) }) {
			return detail, fmt.Errorf("%s is not an address of the Node, and not in the parameter %s of "+
				"the class", prefix, v1alpha1.StorageNetworksParameter)
		}
		detail.Cidrs = append(detail.Cidrs, prefix.String())
	}
	return detail, nil
}

// indexClient indexes CSIAddonsNodes by the CIDRs of the clients in their status.
const indexClient = "client"

// byClient returns the CIDRs of the clients in the status of a CSIAddonsNode, for the index.
func byClient(o client.Object) []string {
	var found []string
	for _, class := range o.(*v1alpha1.CSIAddonsNode).Status.NetworkFenceClientStatus {
		for _, one := range class.ClientDetails {
			found = append(found, one.Cidrs...)
		}
	}
	return found
}

// unshared returns clients without the CIDRs that another node reports. If there is such a CIDR, it
// also returns an *invalid. After any other error, the clients are nil.
//
// kubelet writes the addresses of its Node, and a driver pod reports those in storage networks. So
// somebody with root on one node could name the address of another, and an administrator would
// fence the wrong node. The other CIDRs stay: otherwise somebody with root on one node could remove
// the clients of all nodes.
func (c *Clients) unshared(ctx context.Context, sidecar *connection.Sidecar,
	clients []v1alpha1.ClientDetail,
) ([]v1alpha1.ClientDetail, error) {
	removed := 0
	var shared, with string
	for i := range clients {
		own := []string{}
		for _, cidr := range clients[i].Cidrs {
			var reporting v1alpha1.CSIAddonsNodeList
			err := c.Client.List(ctx, &reporting, client.UnsafeDisableDeepCopy,
				client.MatchingFields{indexClient: cidr})
			if err != nil {
				return nil, fmt.Errorf("listing CSIAddonsNodes: %w", err)
			}
			other := slices.IndexFunc(reporting.Items, func(one v1alpha1.CSIAddonsNode) bool {
				return one.Spec.Driver.Name == sidecar.Driver && one.Spec.Driver.NodeID != sidecar.Node
			}) // a sidecar of another driver may not be verified
			if other < 0 {
				own = append(own, cidr)
				continue
			}
			removed++
			shared, with = cidr, reporting.Items[other].Spec.Driver.NodeID
		}
		clients[i].Cidrs = own
	}
	if removed == 0 {
		return clients, nil
	}
	return clients, invalidf(reasonBadClients, "pod %s returns %d addresses of other nodes for Node "+
		"%s, such as %s, and Node %s has this address too: find out which node uses it before you fence "+
		"it", sidecar.Pod, removed, sidecar.Node, shared, with)
}
