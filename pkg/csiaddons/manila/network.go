package manila

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// parseNetwork parses an address or a network. Host bits are removed.
func parseNetwork(text string) (netip.Prefix, error) {
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

// overlapsAny returns whether a network has an address in common with one of the others.
func overlapsAny(network netip.Prefix, others []netip.Prefix) bool {
	return slices.ContainsFunc(others, network.Overlaps)
}

// without returns the networks that contain the addresses of a network except those of others: as
// few as possible, in ascending order.
func without(network netip.Prefix, others []netip.Prefix) ([]netip.Prefix, error) {
	var rest netipx.IPSetBuilder
	rest.AddPrefix(network)
	for _, other := range others {
		rest.RemovePrefix(other)
	}
	set, err := rest.IPSet()
	if err != nil {
		return nil, fmt.Errorf("removing networks from %s: %w", network, err)
	}
	return set.Prefixes(), nil
}

// sorted returns networks in ascending order, each once.
func sorted(networks []netip.Prefix) []netip.Prefix {
	networks = slices.SortedFunc(slices.Values(networks), netip.Prefix.Compare)
	return slices.Compact(networks)
}

func join(networks []netip.Prefix) string {
	texts := make([]string, 0, len(networks))
	for _, network := range networks {
		texts = append(texts, network.String())
	}
	return strings.Join(texts, ",")
}
