package manila

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

func networks(t *testing.T, texts ...string) []netip.Prefix {
	t.Helper()
	var found []netip.Prefix
	for _, text := range texts {
		network, err := parseNetwork(text)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, network)
	}
	return found
}

func TestNetworksAreParsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.5": "10.0.0.5/32", "10.0.0.5/24": "10.0.0.0/24", "0.0.0.0/0": "0.0.0.0/0",
		"fd00::1": "fd00::1/128", "::/0": "::/0", "::ffff:10.0.0.5": "10.0.0.5/32",
		"": "", "10.0.0.0/33": "", "host": "", "fe80::1%eth0": "", "::ffff:10.0.0.0/104": "",
	} {
		network, err := parseNetwork(text)
		if (err != nil) != (want == "") || (err == nil && network.String() != want) {
			t.Errorf("%q is parsed as %v, %v", text, network, err)
		}
	}
}

// randomNetwork returns a network of IPv4 or IPv6 with 2^low to 2^high addresses, near the others.
func randomNetwork(random *rand.Rand, low, high int) netip.Prefix {
	address := netip.AddrFrom4([4]byte{10, 0, 0, byte(random.UintN(256))})
	if random.IntN(8) == 0 {
		address = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(random.UintN(256))})
	}
	return netip.PrefixFrom(address, address.BitLen()-low-random.IntN(high-low+1)).Masked()
}
