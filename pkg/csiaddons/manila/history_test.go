package manila

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/test/openstack/sharecloud"
)

// history is a sequence of fences and ends of fences with overlapping networks, of which some fail
// in the middle.
type history struct {
	*testing.T
	*cloud

	random *rand.Rand
	seed   uint64
	// rules are the access rules of each share without a fence.
	rules map[string][]rule
	// fenced are the networks whose last operation was a fence that succeeded, and unknown those
	// whose last operation failed or runs.
	fenced, unknown map[netip.Prefix]bool
	broken          bool
}

func newHistory(t *testing.T, seed uint64) *history {
	t.Helper()
	h := &history{
		T: t, seed: seed, rules: map[string][]rule{},
		random: sharecloud.NewRandom(seed, 2),
		fenced: map[netip.Prefix]bool{}, unknown: map[netip.Prefix]bool{},
	}
	h.cloud = &cloud{sharecloud.New(sharecloud.Config{
		RequestTime: 100 * time.Millisecond, ApplyTime: 300 * time.Millisecond, Fault: h.fault,
	})}
	for i := range 2 {
		share := sharecloud.Share{
			ID: shareID(i), Backend: string("ab"[i]),
			Metadata: map[string]string{shares.ClusterKey: cluster},
		}
		originals, kept := randomRules(h.random, nil)
		h.rules[share.ID] = append(originals, kept...)
		for _, r := range h.rules[share.ID] {
			share.Rules = append(share.Rules, r.level+" "+r.to)
		}
		h.Create(share)
	}
	return h
}

// fault loses some requests and answers, and checks the access meanwhile.
func (h *history) fault(call sharecloud.Call) sharecloud.Fault {
	h.check(false)
	if !h.broken || call.Method == "List" || h.random.IntN(20) > 0 {
		return sharecloud.Fault{}
	}
	lost := &openstack.Error{Reason: openstack.CloudUnreachable, Message: "no answer"}
	return sharecloud.Fault{Err: lost, Lost: h.random.IntN(2) == 0}
}

// check compares the access of some addresses. A client that is not fenced has access at any time,
// and after an operation the level that it has without fences.
func (h *history) check(exactly bool) {
	for id, rules := range h.rules {
		for i := range byte(16) {
			address := netip.AddrFrom4([4]byte{10, 0, 0, i*17 + 1})
			contains := func(networks map[netip.Prefix]bool) bool {
				for network := range networks {
					if network.Contains(address) {
						return true
					}
				}
				return false
			}
			got, _ := h.Access(id, address)
			want, unknown := levelOf(address, rules), contains(h.unknown)
			switch {
			case contains(h.fenced):
				assert.Check(h, is.Equal(got, ""), "seed %d: fenced %v, share %s", h.seed, address, id)
			case !unknown && (exactly || want == "" || got == ""):
				assert.Check(h, is.Equal(got, want), "seed %d: %v, share %s", h.seed, address, id)
			}
		}
	}
}

// perform performs one operation with a controller that may end at any time.
func (h *history) perform(network netip.Prefix, fences bool) {
	ctx, cancel := context.WithTimeout(h.Context(), 15*time.Minute)
	if h.broken && h.random.IntN(3) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(h.random.IntN(20))*time.Second)
	}
	defer cancel()
	call := h.fence
	if !fences {
		call = h.unfence
		delete(h.fenced, network)
	}
	h.unknown[network] = true
	if err := call(ctx, network.String()); err == nil {
		delete(h.unknown, network)
		if fences {
			h.fenced[network] = true
		}
	} else if !h.broken {
		assert.NilError(h, err, "seed %d", h.seed)
	}
	h.check(!h.broken)
}

// The rules of a share are those without fences when all fences have ended, whatever happened.
func TestHistoriesOfFencesKeepTheAccessRules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			h := newHistory(t, seed)
			var networks []netip.Prefix
			for range 3 {
				networks = append(networks, randomNetwork(h.random, 4))
			}
			for range 10 {
				h.broken = h.random.IntN(3) > 0
				if h.broken && h.random.IntN(4) == 0 {
					h.Kill("a")
				}
				h.perform(networks[h.random.IntN(len(networks))], h.random.IntN(2) == 0)
				h.Revive("a")
			}
			h.broken = false
			for _, network := range networks {
				h.perform(network, false)
			}
			for id, rules := range h.rules {
				var want, got []string
				for _, r := range rules {
					want = append(want, r.level+" "+r.to)
				}
				for _, r := range h.Rules(id) {
					got = append(got, fmt.Sprintf("%s %s", r.Level, r.To))
				}
				slices.Sort(want)
				slices.Sort(got)
				assert.Check(t, is.DeepEqual(want, got), "seed %d: rules of %s", seed, id)
				assert.Check(t, is.Len(h.Metadata(id), 1), "seed %d: metadata of %s", seed, id)
			}
		})
	}
}
