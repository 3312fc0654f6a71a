package manilanode

import (
	"fmt"
	"net/netip"
)

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
