package manila

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go4.org/netipx"
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

// rest returns a network without others.
func rest(network netip.Prefix, others []netip.Prefix) ([]netip.Prefix, error) {
	var set netipx.IPSetBuilder
	set.AddPrefix(network)
	return without(&set, others)
}

func TestRestOfANetworkContainsAllOtherAddresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		network string
		fenced  []string
		want    []string
	}{
		{"10.0.0.0/30", []string{"192.168.0.1"}, []string{"10.0.0.0/30"}},
		{"10.0.0.0/30", []string{"10.0.0.1"}, []string{"10.0.0.0/32", "10.0.0.2/31"}},
		{"10.0.0.0/30", []string{"10.0.0.0/8"}, nil},
		{"10.0.0.0/30", []string{"10.0.0.0/30"}, nil},
		{"10.0.0.0/30", []string{"10.0.0.0", "10.0.0.3"}, []string{"10.0.0.1/32", "10.0.0.2/32"}},
		{"10.0.0.5", []string{"10.0.0.5"}, nil},
		{"fd00::/126", []string{"fd00::1", "0.0.0.0/0"}, []string{"fd00::/128", "fd00::2/127"}},
	} {
		parts, err := rest(networks(t, test.network)[0], networks(t, test.fenced...))
		if diff := cmp.Diff(networks(t, test.want...), parts, cmp.Comparer(
			func(a, b netip.Prefix) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" ||
			err != nil {
			t.Errorf("%s without %v: error %v (-want +got):\n%s", test.network, test.fenced, err, diff)
		}
	}
}

func TestDefaultRuleOfTheDriverIsReplacedByOneRuleForEachBit(t *testing.T) {
	t.Parallel()
	for network, client := range map[string]string{"0.0.0.0/0": "10.1.2.3", "::/0": "fd00::1:2:3"} {
		all, fenced := networks(t, network)[0], networks(t, client)
		parts, err := rest(all, fenced)
		if len(parts) != all.Addr().BitLen() || err != nil {
			t.Errorf("%s without %s has %d parts: %v", network, client, len(parts), err)
		}
		if slices.ContainsFunc(parts, func(p netip.Prefix) bool { return overlapsAny(p, fenced) }) {
			t.Errorf("%s without %s contains the client: %v", network, client, parts)
		}
	}
}

// The test compares each address of networks with up to 256 addresses.
func TestRestAndFencedAddressesAreTheNetwork(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a failure must be repeatable
		network := randomNetwork(random, 0, 8)
		others := make([]netip.Prefix, random.IntN(12))
		for i := range others {
			others[i] = randomNetwork(random, 1, 9)
		}
		parts, err := rest(network, others)
		if err != nil {
			t.Fatal(err)
		}
		for address := network.Addr(); network.Contains(address); address = address.Next() {
			single := netip.PrefixFrom(address, address.BitLen())
			want := 1
			if overlapsAny(single, others) {
				want = 0
			}
			if got := countOverlaps(single, parts); got != want {
				t.Errorf("seed %d: %v without %v contains %v %d times", seed, network, others, address, got)
			}
		}
		for i, part := range parts {
			joined := netip.PrefixFrom(part.Addr(), part.Bits()-1).Masked()
			switch {
			case !network.Overlaps(part) || part.Bits() < network.Bits():
				t.Errorf("seed %d: %v is not a part of %v", seed, part, network)
			case part.Bits() > network.Bits() && countOverlaps(joined, parts) > 1 &&
				!overlapsAny(joined, others):
				t.Errorf("seed %d: %v could be larger", seed, part)
			case i > 0 && !parts[i-1].Addr().Less(part.Addr()):
				t.Errorf("seed %d: %v is not in ascending order", seed, parts)
			}
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

func countOverlaps(network netip.Prefix, others []netip.Prefix) (count int) {
	for _, other := range others {
		if network.Overlaps(other) {
			count++
		}
	}
	return count
}
