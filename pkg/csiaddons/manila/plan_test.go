package manila

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// The test compares the access of each address of the networks of randomNetwork.
func TestRulesWhileFencedAllowWhatTheSmallestRuleAllowed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a failure must be repeatable
		target := []netip.Prefix{randomNetwork(random, 3), randomNetwork(random, 3)}
		originals, kept := randomRules(random, target)
		wanted, err := wantedRules(originals, kept, target)
		assert.NilError(t, err)
		after := slices.Clone(kept)
		for _, w := range wanted {
			for _, r := range after {
				if (w.part || w.network == r.network) && w.level != r.level && w.network.Overlaps(r.network) {
					t.Errorf("seed %d: %v overlaps %v", seed, w, r)
				}
			}
			after = append(after, w.rule)
		}
		for _, text := range []string{"10.0.0.0/24", "fd00::/120"} {
			network := netip.MustParsePrefix(text)
			for address := network.Addr(); network.Contains(address); address = address.Next() {
				want := levelOf(address, slices.Concat(originals, kept))
				if overlapsAny(netip.PrefixFrom(address, address.BitLen()), target) {
					want = ""
				}
				assert.Check(t, is.Equal(levelOf(address, after), want), "seed %d: %v", seed, address)
			}
		}
	}
}

// randomRules returns rules for different networks. Those that overlap the target are originals.
func randomRules(random *rand.Rand, target []netip.Prefix) (originals, kept []rule) {
	seen := map[netip.Prefix]bool{}
	for range random.IntN(10) {
		network := randomNetwork(random, 8)
		if seen[network] {
			continue
		}
		seen[network] = true
		r := rule{network.String(), network, []string{readOnly, readWrite}[random.IntN(2)]}
		if overlapsAny(network, target) || random.IntN(4) == 0 {
			originals = append(originals, r)
		} else {
			kept = append(kept, r)
		}
	}
	return originals, kept
}

// levelOf returns the level of the smallest rule that contains an address.
func levelOf(address netip.Addr, rules []rule) (level string) {
	bits := -1
	for _, r := range rules {
		if r.network.Contains(address) && r.network.Bits() > bits {
			level, bits = r.level, r.network.Bits()
		}
	}
	return level
}

// randomNetwork returns a network of IPv4 or IPv6 with 1 to 2^high addresses, near the others.
func randomNetwork(random *rand.Rand, high int) netip.Prefix {
	address := netip.AddrFrom4([4]byte{10, 0, 0, byte(random.UintN(256))})
	if random.IntN(8) == 0 {
		address = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(random.UintN(256))})
	}
	return netip.PrefixFrom(address, address.BitLen()-random.IntN(high+1)).Masked()
}
