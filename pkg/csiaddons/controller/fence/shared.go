package fence

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// Names of the indexes of Nodes by their addresses, and of CSIAddonsNodes by the CIDRs of the
// clients in their status.
const (
	indexAddress = "address"
	indexClient  = "client"
)

// addressesOf returns the IP addresses of a Node.
func addressesOf(node *corev1.Node) []netip.Addr {
	var found []netip.Addr
	for _, one := range node.Status.Addresses {
		if address, err := netip.ParseAddr(one.Address); err == nil { // others are names
			found = append(found, address.Unmap())
		}
	}
	return found
}

// byAddress returns the addresses of a Node, for the index.
func byAddress(o client.Object) []string {
	var found []string
	for _, address := range addressesOf(o.(*corev1.Node)) {
		found = append(found, address.String())
	}
	return found
}

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

// unshared returns clients without the CIDRs that have the address of another node. If there is
// such a CIDR, it also returns an *invalid. After any other error, the clients are nil.
//
// kubelet writes the addresses of its Node, and a driver pod reports those in storage networks. So
// somebody with root on one node could name the address of another, and an administrator would
// fence the wrong node. The other CIDRs stay: otherwise somebody with root on one node could remove
// the clients of all nodes.
func (c *Clients) unshared(ctx context.Context, sidecar *connection.Sidecar,
	clients []v1alpha1.ClientDetail,
) ([]v1alpha1.ClientDetail, error) {
	removed := 0
	var sharedCIDR, sharedWith string
	for i := range clients {
		own := []string{}
		for _, cidr := range clients[i].Cidrs {
			other, err := c.otherNode(ctx, sidecar, cidr)
			switch {
			case err != nil:
				return nil, err
			case other == "":
				own = append(own, cidr)
			default:
				removed++
				sharedCIDR, sharedWith = cidr, other
			}
		}
		clients[i].Cidrs = own
	}
	if removed == 0 {
		return clients, nil
	}
	return clients, invalidf(reasonBadClients, "pod %s returns %d addresses of other nodes for Node "+
		"%s, such as %s, and Node %s has this address too: find out which node uses it before you fence "+
		"it", sidecar.Pod, removed, sidecar.Node, sharedCIDR, sharedWith)
}

// otherNode returns the name of another Node that has the address of a CIDR, or for which a sidecar
// of the same driver reports it; "" means none. A sidecar of another driver may not be verified.
func (c *Clients) otherNode(ctx context.Context, sidecar *connection.Sidecar, cidr string,
) (string, error) {
	var nodes corev1.NodeList
	address, _, _ := strings.Cut(cidr, "/")
	err := c.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy,
		client.MatchingFields{indexAddress: address})
	if err != nil {
		return "", fmt.Errorf("listing Nodes: %w", err)
	}
	for i := range nodes.Items {
		if other := nodes.Items[i].Name; other != sidecar.Node {
			return other, nil
		}
	}
	var sidecars v1alpha1.CSIAddonsNodeList
	err = c.Client.List(ctx, &sidecars, client.UnsafeDisableDeepCopy,
		client.MatchingFields{indexClient: cidr})
	if err != nil {
		return "", fmt.Errorf("listing CSIAddonsNodes: %w", err)
	}
	for i := range sidecars.Items {
		other := sidecars.Items[i].Spec.Driver
		if other.Name == sidecar.Driver && other.NodeID != sidecar.Node {
			return other.NodeID, nil
		}
	}
	return "", nil
}
