package manila

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/manilanode"
)

func networks(t *testing.T, texts ...string) []netip.Prefix {
	t.Helper()
	var found []netip.Prefix
	for _, text := range texts {
		network, err := manilanode.ParseNetwork(text)
		assert.NilError(t, err)
		found = append(found, network)
	}
	return found
}

// randomNetwork returns a network of IPv4 or IPv6 with 2^low to 2^high addresses, near the others.
func randomNetwork(random *rand.Rand, low, high int) netip.Prefix {
	address := netip.AddrFrom4([4]byte{10, 0, 0, byte(random.UintN(256))})
	if random.IntN(8) == 0 {
		address = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(random.UintN(256))})
	}
	return netip.PrefixFrom(address, address.BitLen()-low-random.IntN(high-low+1)).Masked()
}
