package manila

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/csi-addons/spec/lib/go/fence"
	gophershares "github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestFenceRevokesAndUnfenceRestoresExactly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rules  []string
		access []string // of the fenced client, its neighbor and a stranger, while fenced
	}{
		"everybody":            {[]string{"rw 0.0.0.0/0"}, []string{"", "rw", "rw"}},
		"everybody may read":   {[]string{"ro 0.0.0.0/0"}, []string{"", "ro", "ro"}},
		"a network":            {[]string{"rw 10.0.0.0/24"}, []string{"", "rw", ""}},
		"one rule for a node":  {[]string{"rw 10.0.0.5", "rw 10.0.0.6"}, []string{"", "rw", ""}},
		"a rule with a length": {[]string{"rw 10.0.0.5/32"}, []string{"", "", ""}},
		"rules that overlap": {
			[]string{"ro 0.0.0.0/0", "rw 10.0.0.0/24", "rw 10.0.0.5"}, []string{"", "rw", "ro"},
		},
		"readers in a network of writers": {
			[]string{"rw 0.0.0.0/0", "ro 10.0.0.0/24"}, []string{"", "ro", "rw"},
		},
		"nested networks":  {[]string{"rw 10.0.0.0/8", "rw 10.0.0.6/31"}, []string{"", "rw", ""}},
		"other clients":    {[]string{"rw 192.168.0.0/16"}, []string{"", "", "rw"}},
		"nobody":           {nil, []string{"", "", ""}},
		"both IP versions": {[]string{"rw 0.0.0.0/0", "rw ::/0"}, []string{"", "rw", "rw"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			share := f.share(cluster, test.rules...)
			other := f.share("green", "rw 0.0.0.0/0")
			f.must(f.fence(f.controller(), fenced+"/32"))
			f.expectAccess(share, test.access...)
			f.expectRules(other, "rw 0.0.0.0/0")
			f.cloud.ResetLog()
			f.must(f.fence(f.controller(), fenced+"/32"))
			f.expectNoChange()
			f.must(f.unfence(f.controller(), fenced+"/32"))
			f.expectRules(share, test.rules...)
			f.must(f.unfence(f.controller(), fenced+"/32"))
			f.expectRules(share, test.rules...)
		})
	}
}

// Fences can nest, and end in any order.
func TestSecondFenceKeepsTheFirst(t *testing.T) {
	t.Parallel()
	const network = "10.0.0.0/24"
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0", "rw 10.0.0.5")
	f.must(f.fence(f.controller(), fenced+"/32"))
	f.must(f.fence(f.controller(), network))
	f.must(f.unfence(f.controller(), fenced+"/32"))
	f.expectAccess(share, "", "", "rw")
	f.must(f.fence(f.controller(), fenced+"/32"))
	f.must(f.fence(f.controller(), neighbor+"/32"))
	listed, err := f.controller().ListClusterFence(t.Context(), &fence.ListClusterFenceRequest{})
	f.must(err)
	got := []string{}
	for _, cidr := range listed.GetCidrs() {
		got = append(got, cidr.GetCidr())
	}
	assert.Check(t, is.DeepEqual([]string{network, "10.0.0.5/32", "10.0.0.6/32"}, got))
	for range 2 { // a repetition changes nothing
		f.must(f.unfence(f.controller(), network))
		f.expectAccess(share, "", "", "rw")
	}
	f.must(f.unfence(f.controller(), fenced+"/32"))
	f.expectAccess(share, "rw", "", "rw")
	f.must(f.unfence(f.controller(), neighbor+"/32"))
	f.expectRules(share, "rw 0.0.0.0/0", "rw 10.0.0.5")
}

// The next fence revokes a rule that somebody adds while a client is fenced. Its end restores it.
func TestRuleThatIsAddedWhileFencedIsRevokedAndRestored(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rule, added string
		access      []string // of the fenced client, its neighbor and a stranger
		restored    []string
	}{
		{
			"rw 10.0.0.0/24", "ro 0.0.0.0/0",
			[]string{"", "rw", "ro"},
			[]string{"ro 0.0.0.0/0", "rw 10.0.0.0/24"},
		},
		{"rw 0.0.0.0/0", "ro 0.0.0.0/0", []string{"", "ro", "ro"}, []string{"ro 0.0.0.0/0"}},
		{
			"ro 0.0.0.0/0", "rw 10.0.0.0/24",
			[]string{"", "rw", "ro"},
			[]string{"ro 0.0.0.0/0", "rw 10.0.0.0/24"},
		},
		{
			"rw 0.0.0.0/0", "ro 10.0.0.0/24",
			[]string{"", "ro", "rw"},
			[]string{"ro 10.0.0.0/24", "rw 0.0.0.0/0"},
		},
	} {
		f := newFixture(t)
		share := f.share(cluster, test.rule)
		f.must(f.fence(f.controller(), fenced))
		f.allow(share, ipType, test.added)
		c, _ := f.crashAfter(noCrash, func() {
			assert.Check(t, f.access(share, neighbor) != "" && f.access(share, stranger) != "",
				"from %s to %s: another client has no access", test.rule, test.added)
		})
		f.must(f.fence(c, fenced))
		f.expectAccess(share, test.access...)
		f.must(f.unfence(f.controller(), fenced))
		f.expectRules(share, test.restored...)
	}
}

func TestFenceThatCannotBeExpressedChangesNoShare(t *testing.T) {
	t.Parallel()
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("10.1.0.%d", 2*i)
	}
	for name, test := range map[string]struct {
		kind, rule string
		maximum    int
		networks   []string
	}{
		"too many rules":       {ipType, "rw 0.0.0.0/0", 20, []string{fenced + "/32"}},
		"a rule for a user":    {"user", "rw alice", 64, []string{fenced + "/32"}},
		"too long IPv6 prefix": {ipType, "rw ::/0", 64, []string{"fd00::1/128"}},
		"too long record":      {ipType, "rw 10.0.0.0/8", 10_000, many},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			simple := f.share(cluster, "rw 10.0.0.5", "rw fd00::1")
			hard := f.share(cluster)
			f.allow(hard, test.kind, test.rule)
			c := f.controller()
			c.config.MaxRules = test.maximum
			f.refused(f.fence(c, test.networks...), codes.FailedPrecondition, hard)
			f.expectRules(simple, "rw 10.0.0.5", "rw fd00::1")
			f.expectRules(hard, test.rule)
		})
	}
}

// Exports of Linux admit both families by a rule for all addresses of one. No rule for a part of
// the other family is added: other backends would admit its clients only while somebody is fenced.
func TestRuleForAllAddressesOfAFamilyAdmitsNoFencedClientOfTheOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for client, rules := range map[string][]string{
		"fd00::1": {"rw 0.0.0.0/0", "rw 0.0.0.0/1", "rw 128.0.0.0/1"},
		fenced:    {"rw ::/0", "rw ::/1", "rw 8000::/1"},
	} {
		share := f.share(cluster, rules[0])
		f.must(f.fence(f.controller(), client))
		var got []string
		for _, r := range f.list(share) {
			got = append(got, r.Level+" "+r.To)
		}
		assert.Check(t, is.DeepEqual(rules[1:], got), "rules without %s", client)
		assert.Check(t, is.Equal(f.access(share, client), ""), "access of %s", client)
		f.must(f.unfence(f.controller(), client))
		f.expectRules(share, rules[0])
	}
}

func refusedNetworks(err error) (found []string) {
	for _, detail := range status.Convert(err).Details() {
		for _, one := range detail.(*errdetails.BadRequest).GetFieldViolations() {
			found = append(found, one.GetField())
		}
	}
	return found
}

// A rack is fenced without the node that cannot be fenced, so the error names this node only. If it
// is not about nodes, it names none: the caller need not try each alone.
func TestErrorNamesTheNetworksToLeaveOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.share(cluster, "rw 10.0.0.0/24", "rw fd00::/64")
	share := f.share(cluster, "rw 10.0.0.0/24", "rw fd00::/64")
	rack := []string{
		"fd00::1/128", "10.0.0.9/32", "fd00::8000:0:0:2/128", "10.0.0.5/32", "fd00::c000:0:0:3/128",
	}
	c := f.controller()
	c.config.MaxRules = 160 // of which one address of IPv6 needs 64
	named := func(err error) []string {
		f.refused(err, codes.FailedPrecondition, "")
		return refusedNetworks(err)
	}
	assert.Check(t, is.DeepEqual(rack[4:], named(f.fence(c, rack...))), "refused networks")
	f.expectRules(share, "rw 10.0.0.0/24", "rw fd00::/64")
	f.must(f.fence(c, rack[:4]...))
	f.must(f.unfence(c, rack[:4]...))
	f.allow(share, "user", "rw alice")
	assert.Check(t, is.Len(named(f.fence(c, rack...)), 0), "with a rule for a user")
	f.volumes = []Volume{{ShareName: "a"}}
	assert.Check(t, is.Len(named(f.fence(c, rack...)), 0), "with a PersistentVolume")
}

// The addresses of IPv4 need most rules: 16 for the other networks, one for each unused sixteenth
// of their network, and 12 for each sixteenth with an address.
func TestAddressesAreFencedWithTheDefaults(t *testing.T) {
	t.Parallel()
	twelve := make([]string, 12)
	for i := range twelve {
		twelve[i] = fmt.Sprintf("10.100.%d.85", (i+i/3)<<4|5)
	}
	for _, test := range []struct {
		rule, other string
		lost        []string
		rules       int
	}{
		{"rw 0.0.0.0/0", neighbor, twelve, 16 + 4 + 12*12},
		{"rw ::/0", "fd00::2", []string{"fd00::1"}, 128},
	} {
		f := newFixture(t)
		share := f.share(cluster, test.rule)
		f.must(f.fence(f.controller(), test.lost...))
		for _, client := range test.lost {
			assert.Check(t, is.Equal(f.access(share, client), ""), "%s has the access", client)
		}
		assert.Check(t, is.Equal(f.access(share, test.other), "rw"), "access of another client")
		assert.Check(t, is.Len(f.list(share), test.rules))
		f.must(f.unfence(f.controller(), test.lost...))
		f.expectRules(share, test.rule)
	}
}

func TestInvalidNetworksAreRefused(t *testing.T) {
	t.Parallel()
	c := NewController(Config{})
	for _, networks := range [][]string{nil, {"10.0.0.0/33"}, {"node-1", "10.0.0.5/32"}} {
		f := &fixture{T: t}
		for _, err := range []error{f.fence(c, networks...), f.unfence(c, networks...)} {
			f.refused(err, codes.InvalidArgument, "")
			assert.Check(t, is.DeepEqual(networks[:min(len(networks), 1)], refusedNetworks(err)))
		}
	}
}

func TestUnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 10.0.0.5")
	c := f.controller()
	for unknown, parameters := range map[string]map[string]string{
		"clusterID":       {"clusterID": "a", v1alpha1.StorageNetworksParameter: "10.0.0.0/24"},
		"StorageNetworks": {"StorageNetworks": "10.0.0.0/24"},
		"x":               {"x": "", "y": ""},
	} {
		_, one := c.FenceClusterNetwork(t.Context(),
			&fence.FenceClusterNetworkRequest{Cidrs: cidrs(fenced), Parameters: parameters})
		_, two := c.UnfenceClusterNetwork(t.Context(),
			&fence.UnfenceClusterNetworkRequest{Cidrs: cidrs(fenced), Parameters: parameters})
		for _, err := range []error{one, two} {
			f.refused(err, codes.InvalidArgument, `no parameter "`+unknown+`", only storageNetworks`)
		}
	}
	f.expectRules(share, "rw 10.0.0.5")
	_, err := c.FenceClusterNetwork(t.Context(), &fence.FenceClusterNetworkRequest{
		Cidrs:      cidrs(fenced),
		Parameters: map[string]string{v1alpha1.StorageNetworksParameter: "172.16.0.0/16"},
	})
	f.must(err)
	f.expectAccess(share, "", "", "")
}

func TestForgedRecordIsRefused(t *testing.T) {
	t.Parallel()
	for _, entry := range []map[string]string{
		{fencedKey: "10.0.0.5/32,x"}, {revokedKey: "rw"}, {revokedKey: "root 0.0.0.0/0"},
	} {
		f := newFixture(t)
		share := f.share(cluster, "rw 0.0.0.0/0")
		f.must(f.requests().SetMetadata(t.Context(), share, entry))
		f.refused(f.fence(f.controller(), fenced), codes.Unavailable, "in its metadata")
		assert.Check(t, is.Len(f.list(share), 1))
	}
}

// Tools may replace all metadata of a share. Without the record, a fence does not know what the
// rules that it has added are parts of: to revoke them would end the access of all clients.
func TestRemovedRecordEndsNoAccess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share, other := f.share(cluster, "rw 0.0.0.0/0"), f.share(cluster, "rw 0.0.0.0/0")
	f.must(f.fence(f.controller(), fenced))
	f.must(f.requests().DeleteMetadata(t.Context(), share, revokedKey))
	for _, client := range []string{fenced, neighbor} { // a verification, and another fence
		f.refused(f.fence(f.controller(), client), codes.Unavailable, "grant this rule again")
		f.expectAccess(share, "", "rw", "rw")
	}
	f.expectAccess(other, "", "", "rw")
	f.refused(f.unfence(f.controller(), fenced), codes.Unavailable, "grant this rule again")
	f.expectAccess(share, "", "rw", "rw")
	f.allow(share, ipType, "rw 0.0.0.0/0")
	f.must(f.fence(f.controller(), fenced, neighbor))
	f.expectAccess(share, "", "", "rw")
	f.must(f.unfence(f.controller(), fenced, neighbor))
	f.expectRules(share, "rw 0.0.0.0/0")
	f.expectRules(other, "rw 0.0.0.0/0")
}

func TestBusyManilaIsRetriedAndAMissingOneIsNot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0")
	f.fault(simulator.Fault{
		Mode: simulator.Status, Status: http.StatusConflict, Method: http.MethodPost, Times: 5,
	})
	f.must(f.fence(f.controller(), fenced))
	f.expectAccess(share, "", "rw", "rw")
	f.must(f.cloud.Close())
	f.refused(f.fence(f.controller(), fenced), codes.Unavailable, "")
}

func TestRuleThatManilaCouldNotApplyIsGrantedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0")
	fault := func(times int) {
		f.fault(simulator.Fault{
			Mode: simulator.Fail, Method: http.MethodPost, Times: times,
			PathPrefix: "/share/v2/shares/" + share + "/action",
		})
	}
	fault(3)
	f.refused(f.fence(f.controller(), fenced), codes.Unavailable, "Manila failed to grant access to")
	f.expectAccess(share, "rw", "rw", "rw") // nothing is revoked before all rules are active
	f.must(f.fence(f.controller(), fenced))
	f.expectAccess(share, "", "rw", "rw")
	fault(1)
	f.refused(f.unfence(f.controller(), fenced), codes.Unavailable, "Manila failed to grant access to")
	f.must(f.unfence(f.controller(), fenced))
	f.expectRules(share, "rw 0.0.0.0/0")
}

// TestOperationContinuesAfterARestart ends the process after each change of a fence, and of an
// unfence. It checks after each change that the other clients have access. The shares are those of
// the cluster, or of PersistentVolumes that somebody deletes after the fence.
func TestOperationContinuesAfterARestart(t *testing.T) {
	t.Parallel()
	originals := []string{"rw 10.0.0.0/29", "rw 10.0.0.5", "ro 192.168.0.0/16"}
	for _, owner := range []string{cluster, ""} {
		f := newFixture(t)
		f.share(cluster) // so that the end of a fence does not list PersistentVolumes
		for changes, crashed := 0, true; crashed; changes++ {
			share := f.share(owner, originals...)
			crash := func(operation func(*Controller, ...string) error) {
				c, requests := f.crashAfter(changes, func() {
					assert.Check(t, f.access(share, neighbor) == "rw" && f.access(share, stranger) == "ro",
						"after %d changes another client has no access", changes)
				})
				err := operation(c, fenced)
				crashed = crashed || requests.left == 0 && err != nil
				if !crashed {
					f.must(err)
				}
			}
			crashed = false
			f.volumes = []Volume{{Name: "a", ShareID: share}}
			crash(f.fence)
			f.must(f.fence(f.controller(), fenced))
			f.expectAccess(share, "", "rw", "ro")
			f.volumes = nil
			crash(f.unfence)
			f.must(f.unfence(f.controller(), fenced))
			f.expectRules(share, originals...)
			// The operations are also the opposite of an operation that did not end.
			f.volumes = []Volume{{Name: "a", ShareID: share}}
			crash(f.fence)
			f.volumes = nil
			f.must(f.unfence(f.controller(), fenced))
			f.expectRules(share, originals...)
			f.must(gophershares.Delete(t.Context(), f.manila, share).ExtractErr())
		}
	}
}

// reports returns what a plugin reports.
func reports(vendorVersion string, err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return vendorVersion, err }
}

func TestPluginThatNeedsTheIDsOfAccessRulesRefusesAFence(t *testing.T) {
	t.Parallel()
	for version, refused := range map[string]string{
		"0.9.0@v1.34.1": "v1.34.1", "0.9.0@v1.34.99-3-g1a2b3c4": "v1.34.99", "0.9.0@1.20.0": "v1.20.0",
		"0.9.0@v1.34.1\x1b[31m": "v1.34.1",
		"0.9.0@v1.35.0":         "", "0.9.0@v1.35.0-rc.1": "", "0.9.0@v1.36.0": "", "1.0.0@v2.0.0": "",
		"0.9.0@": "", "0.9.0": "", "": "", "0.9.0@1a2b3c4": "", "0.9.0@latest": "",
	} {
		f := &fixture{T: t}
		c := Controller{config: Config{PluginVersion: reports(version, nil)}}
		if err := c.checkPlugin(t.Context()); refused == "" {
			f.must(err)
		} else {
			f.refused(err, codes.FailedPrecondition, "manila-csi-plugin has the version "+refused+", and")
		}
	}
}
