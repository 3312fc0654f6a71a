package manila

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// The test compares the access of each address of the networks of randomNetwork.
func TestRulesWhileFencedAllowWhatTheSmallestRuleAllowed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a failure must be repeatable
		target := []netip.Prefix{randomNetwork(random, 0, 3), randomNetwork(random, 0, 3)}
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
		for _, network := range networks(t, "10.0.0.0/24", "fd00::/120") {
			for address := network.Addr(); network.Contains(address); address = address.Next() {
				want := levelOf(address, slices.Concat(originals, kept))
				if overlapsAny(netip.PrefixFrom(address, address.BitLen()), target) {
					want = ""
				}
				assert.Check(t, is.Equal(levelOf(address, after), want),
					"seed %d: %v has the level", seed, address)
			}
		}
	}
}

// randomRules returns rules for different networks. Those that overlap the target are originals.
func randomRules(random *rand.Rand, target []netip.Prefix) (originals, kept []rule) {
	seen := map[netip.Prefix]bool{}
	for range random.IntN(10) {
		network := randomNetwork(random, 0, 8)
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

// Manila's driver for NetApp sorts the texts of rules in descending order, and ONTAP uses the first
// rule that contains a client.
func TestFenceChangesNoLevelOfABackendThatSortsTexts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "ro 0.0.0.0/0", "rw 100.64.0.0/10")
	f.must(f.fence(f.controller(), fenced))
	rules := f.list(share)
	slices.SortFunc(rules, func(a, b openstack.AccessRule) int { return strings.Compare(b.To, a.To) })
	got := map[string]string{}
	for _, client := range []string{fenced, neighbor, "100.63.255.255", "100.64.0.1", "100.128.0.0"} {
		for _, r := range rules {
			if got[client] == "" && networks(t, r.To)[0].Contains(netip.MustParseAddr(client)) {
				got[client] = r.Level
			}
		}
	}
	want := map[string]string{
		neighbor: readOnly, "100.63.255.255": readOnly, "100.64.0.1": readWrite, "100.128.0.0": readOnly,
	}
	assert.Check(t, is.DeepEqual(want, got), "levels")
	f.must(f.unfence(f.controller(), fenced))
	f.expectRules(share, "ro 0.0.0.0/0", "rw 100.64.0.0/10")
}
