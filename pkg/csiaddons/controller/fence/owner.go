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

// owner is the Node about whose clients a sidecar may speak. A driver pod of one node must not name
// the addresses of another: an administrator would fence the wrong node.
type owner struct {
	// id is the ID of all clients. It is "" if the sidecar belongs to the CSI-Addons for Ceph, whose
	// IDs are those of storage clusters.
	id string
	// addresses are those of the Node, and networks those that the NetworkFenceClass names.
	addresses []netip.Addr
	networks  []netip.Prefix
}

// owner returns the Node of a sidecar, without networks.
func (c *Clients) owner(ctx context.Context, sidecar *connection.Sidecar) (owner, error) {
	node := &corev1.Node{}
	if err := c.Live.Get(ctx, types.NamespacedName{Name: sidecar.Node}, node); err != nil {
		return owner{}, fmt.Errorf("reading the addresses of Node %s: %w", sidecar.Node, err)
	}
	var found owner
	if sidecar.Security == connection.Pinned {
		found.id = sidecar.Node
	}
	found.addresses = addressesOf(node)
	return found, nil
}

// in returns the owner with the storage networks of a class.
func (o owner) in(class *v1alpha1.NetworkFenceClass) (owner, error) {
	list := class.Spec.Parameters[v1alpha1.StorageNetworksParameter]
	if list == "" {
		return o, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		network, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return o, invalidf(ReasonInvalidClass, "the parameter %s of NetworkFenceClass %s is not a list "+
				"of CIDRs", v1alpha1.StorageNetworksParameter, class.Name)
		}
		o.networks = append(o.networks, network)
	}
	return o, nil
}

// read asks a sidecar for the clients of its node. The error is an *invalid if the answer is not
// about this node.
func read(ctx context.Context, sidecar *connection.Sidecar, class *v1alpha1.NetworkFenceClass,
	of owner,
) ([]v1alpha1.ClientDetail, error) {
	request, err := classRequest(class)
	if err != nil {
		return nil, err
	}
	if of, err = of.in(class); err != nil {
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
		detail, err := of.parse(one)
		if err != nil {
			return nil, invalidf(reasonBadClients, "pod %s returns an invalid client for NetworkFenceClass "+
				"%s: %v", sidecar.Pod, class.Name, err)
		}
		clients = append(clients, detail)
	}
	return clients, nil
}

func (o owner) parse(one *wire.ClientDetails) (v1alpha1.ClientDetail, error) {
	detail := v1alpha1.ClientDetail{ID: one.GetId(), Cidrs: []string{}}
	switch {
	case len(detail.ID) > maxClientID || len(one.GetCidrs()) > maxClientCIDRs:
		return detail, fmt.Errorf("an ID has more than %d bytes, or a client more than %d CIDRs",
			maxClientID, maxClientCIDRs)
	case o.id != "" && detail.ID != o.id:
		return detail, fmt.Errorf("its ID is %.64q instead of %s", detail.ID, o.id)
	}
	for _, cidr := range one.GetCidrs() {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil || !prefix.IsSingleIP() {
			return detail, fmt.Errorf("%.64q is not the CIDR of one address", cidr)
		}
		address := prefix.Addr().Unmap()
		if !o.has(address) {
			return detail, fmt.Errorf("%s is not an address of the Node, and not in the parameter %s of "+
				"the class", prefix, v1alpha1.StorageNetworksParameter)
		}
		single := netip.PrefixFrom(address, address.BitLen())
		detail.Cidrs = append(detail.Cidrs, single.String())
	}
	return detail, nil
}

func (o owner) has(address netip.Addr) bool {
	return slices.Contains(o.addresses, address) || slices.ContainsFunc(o.networks,
		func(network netip.Prefix) bool { return network.Contains(address) })
}
