package manila

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
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

// without returns the networks that contain the addresses of a network except those of others, in
// ascending order. It returns nil if they are more than limit.
func without(network netip.Prefix, others []netip.Prefix, limit int,
) (parts []netip.Prefix, ok bool) {
	inside := slices.DeleteFunc(slices.Clone(others),
		func(other netip.Prefix) bool { return !network.Overlaps(other) })
	covers := func(other netip.Prefix) bool { return other.Bits() <= network.Bits() }
	switch {
	case len(inside) == 0:
		return []netip.Prefix{network}, limit >= 1
	case slices.ContainsFunc(inside, covers):
		return nil, true
	}
	for _, half := range halves(network) {
		found, ok := without(half, inside, limit-len(parts))
		if !ok {
			return nil, false
		}
		parts = append(parts, found...)
	}
	return parts, true
}

// halves splits a network of more than one address.
func halves(network netip.Prefix) [2]netip.Prefix {
	bits := network.Bits()
	upper := network.Addr().AsSlice()
	upper[bits/8] |= 0x80 >> (bits % 8)
	address, _ := netip.AddrFromSlice(upper) // the length is that of an address
	return [2]netip.Prefix{
		netip.PrefixFrom(network.Addr(), bits+1), netip.PrefixFrom(address, bits+1),
	}
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
