package wire

import (
	"fmt"
	"net/netip"
)

// MaxNetworks limits the networks of one request.
const MaxNetworks = 1024

// ParseCIDR parses a network with the length of its prefix, such as 10.0.0.5/32. Bits after the
// prefix are removed. Networks of IPv4 in the form of IPv6, such as ::ffff:10.0.0.5/128, become
// those of IPv4, so that one network has one text.
func ParseCIDR(text string) (netip.Prefix, error) {
	const mapped = 96 // bits before the address of IPv4
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%.64q is not a CIDR", text)
	case !network.Addr().Is4In6():
		return network.Masked(), nil
	case network.Bits() < mapped:
		return netip.Prefix{}, fmt.Errorf("%.64q is not a CIDR: it contains all addresses of IPv4 and "+
			"others", text)
	}
	return netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-mapped).Masked(), nil
}

// ParseNetwork parses an address, or a CIDR as ParseCIDR does. Access rules of shares contain both.
func ParseNetwork(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := ParseCIDR(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%.64q is not an address or a network", text)
	}
	return network, nil
}
