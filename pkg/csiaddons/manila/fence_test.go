package manila

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
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
			f.must(f.fence(f.controller(), fenced+"/32")) // a repetition changes nothing
			f.expectAccess(share, test.access...)
			f.must(f.unfence(f.controller(), fenced+"/32"))
			f.expectRules(share, test.rules...)
			f.must(f.unfence(f.controller(), fenced+"/32"))
			f.expectRules(share, test.rules...)
		})
	}
}

func TestSecondFenceKeepsTheFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0", "rw 10.0.0.5")
	f.must(f.fence(f.controller(), fenced+"/32"))
	f.must(f.fence(f.controller(), neighbor+"/32"))
	f.expectAccess(share, "", "", "rw")
	listed, err := f.controller().ListClusterFence(t.Context(), &fence.ListClusterFenceRequest{})
	f.must(err)
	got := []string{}
	for _, cidr := range listed.GetCidrs() {
		got = append(got, cidr.GetCidr())
	}
	if diff := cmp.Diff([]string{"10.0.0.5/32", "10.0.0.6/32"}, got); diff != "" {
		t.Errorf("fenced networks (-want +got):\n%s", diff)
	}
	f.must(f.unfence(f.controller(), fenced+"/32"))
	f.expectAccess(share, "rw", "", "rw")
	f.must(f.unfence(f.controller(), neighbor+"/32"))
	f.expectRules(share, "rw 0.0.0.0/0", "rw 10.0.0.5")
}

func TestRuleThatIsAddedWhileFencedIsRevokedByTheNextFence(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 10.0.0.0/24")
	f.must(f.fence(f.controller(), fenced+"/32"))
	f.allow(share, ipType, "ro 0.0.0.0/0")
	f.expectAccess(share, "ro", "rw", "ro")
	f.must(f.fence(f.controller(), fenced+"/32"))
	f.expectAccess(share, "", "rw", "ro")
	f.must(f.unfence(f.controller(), fenced+"/32"))
	f.expectRules(share, "ro 0.0.0.0/0", "rw 10.0.0.0/24")
}

func TestOtherClientsKeepTheirAccessWhileTheLevelOfARuleChanges(t *testing.T) {
	t.Parallel()
	for level, other := range map[string]string{"ro": "rw", "rw": "ro"} {
		f := newFixture(t)
		share := f.share(cluster, level+" 0.0.0.0/0")
		f.must(f.fence(f.controller(), fenced))
		f.expectAccess(share, "", level, level)
		f.allow(share, ipType, other+" 10.0.0.0/24")
		c, _ := f.crashAfter(noCrash, func() {
			if f.access(share, neighbor) == "" || f.access(share, stranger) != level {
				t.Errorf("from %s to %s: another client has no access", level, other)
			}
		})
		f.must(f.fence(c, fenced))
		f.expectAccess(share, "", other, level)
		f.must(f.unfence(f.controller(), fenced))
		f.expectRules(share, level+" 0.0.0.0/0", other+" 10.0.0.0/24")
	}
}

func TestFenceThatCannotBeExpressedChangesNoShare(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, rule string
		maximum    int
		networks   []string
	}{
		"too many rules":       {ipType, "rw 0.0.0.0/0", 20, []string{fenced + "/32"}},
		"a rule for a user":    {"user", "rw alice", 64, []string{fenced + "/32"}},
		"too long IPv6 prefix": {ipType, "rw ::/0", 64, []string{"fd00::1/128"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			simple := f.share(cluster, "rw 10.0.0.5", "rw fd00::1")
			hard := f.share(cluster)
			f.allow(hard, test.kind, test.rule)
			c := f.controller()
			c.config.MaxRules = test.maximum
			if err := f.fence(c, test.networks...); status.Code(err) != codes.FailedPrecondition ||
				!strings.Contains(err.Error(), hard) {
				t.Errorf("the error is %v", err)
			}
			f.expectRules(simple, "rw 10.0.0.5", "rw fd00::1")
			f.expectRules(hard, test.rule)
		})
	}
}

// The addresses need most rules: 16 for the other networks, one for each unused sixteenth of their
// network, and 12 for each sixteenth with an address.
func TestTwelveAddressesOfANetworkAreFencedWithTheDefaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0")
	var lost []string
	for i := range 12 {
		lost = append(lost, fmt.Sprintf("10.100.%d.85", (i+i/3)<<4|5))
	}
	f.must(f.fence(f.controller(), lost...))
	for _, client := range lost {
		if level := f.access(share, client); level != "" {
			t.Errorf("%s has the access %q", client, level)
		}
	}
	f.expectAccess(share, "rw", "rw", "rw")
	if rules := len(f.list(share)); rules != 16+4+12*12 {
		t.Errorf("the share has %d rules", rules)
	}
	f.must(f.unfence(f.controller(), lost...))
	f.expectRules(share, "rw 0.0.0.0/0")
}

func TestAddressOfIPv6IsFencedWithTheDefaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw ::/0")
	f.must(f.fence(f.controller(), "fd00::1"))
	if lost, other := f.access(share, "fd00::1"), f.access(share, "fd00::2"); lost+other != "rw" {
		t.Errorf("the client has the access %q, another one %q", lost, other)
	}
	f.must(f.unfence(f.controller(), "fd00::1"))
	f.expectRules(share, "rw ::/0")
}

func TestBackendThatRefusesTheRuleNumber65KeepsAllAccess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0")
	limit := ""
	changes := 0
	c, _ := f.crashAfter(noCrash, func() {
		if changes++; changes == 65 { // the record and 64 rules
			limit = f.fault(simulator.Fault{
				Mode: simulator.Fail, Method: http.MethodPost, PathPrefix: "/share/v2/shares/" + share,
			})
		}
	})
	lost := []string{fenced, "10.100.5.85", "10.100.21.85", "10.100.37.85", "10.100.53.85"}
	f.refused(f.fence(c, lost...), codes.Unavailable, "Manila failed to grant access to")
	for _, client := range lost {
		if level := f.access(share, client); level != "rw" {
			t.Errorf("%s has the access %q", client, level)
		}
	}
	f.expectAccess(share, "rw", "rw", "rw")
	f.must(f.cloud.ClearFaults(limit))
	f.must(f.unfence(f.controller(), lost...))
	f.expectRules(share, "rw 0.0.0.0/0")
}

func TestFenceWhoseRecordIsTooLongChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 10.0.0.0/8")
	c := f.controller()
	c.config.MaxRules = 10_000
	var many []string
	address := netip.MustParseAddr("10.0.0.1")
	for range 100 {
		many = append(many, address.String()+"/32")
		address = address.Next().Next()
	}
	if err := f.fence(c, many...); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the error is %v", err)
	}
	f.expectRules(share, "rw 10.0.0.0/8")
}

func TestFencesThatNestEndInAnyOrder(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string][]string{
		"the larger first": {"10.0.0.0/24", fenced + "/32"}, "the smaller first": {fenced, "10.0.0.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			share := f.share(cluster, "rw 0.0.0.0/0")
			f.must(f.fence(f.controller(), "10.0.0.0/24"))
			f.must(f.fence(f.controller(), fenced))
			f.expectAccess(share, "", "", "rw")
			f.must(f.unfence(f.controller(), ends[0]))
			f.must(f.unfence(f.controller(), ends[0])) // a repetition changes nothing
			neighborAccess := map[bool]string{true: "rw", false: ""}[name == "the larger first"]
			f.expectAccess(share, "", neighborAccess, "rw")
			f.must(f.unfence(f.controller(), ends[1]))
			f.expectRules(share, "rw 0.0.0.0/0")
		})
	}
}

func TestInvalidNetworksAreRefused(t *testing.T) {
	t.Parallel()
	c := NewController(Config{}, nil)
	for _, networks := range [][]string{nil, {"10.0.0.0/33"}, {"10.0.0.5/32", "node-1"}} {
		f := &fixture{T: t}
		for _, err := range []error{f.fence(c, networks...), f.unfence(c, networks...)} {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("for %v the error is %v", networks, err)
			}
		}
	}
}

func TestUnknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 10.0.0.5")
	c, node := f.controller(), Node{
		Name: "node-1", Defaults: []netip.Addr{netip.MustParseAddr(fenced)},
	}
	for _, test := range []struct {
		parameters map[string]string
		unknown    string
	}{
		{
			map[string]string{"clusterID": "a", v1alpha1.StorageNetworksParameter: "10.0.0.0/24"},
			"clusterID",
		},
		{map[string]string{"StorageNetworks": "10.0.0.0/24"}, "StorageNetworks"},
		{map[string]string{"x": "", "y": ""}, "x"},
	} {
		_, err := c.FenceClusterNetwork(t.Context(), &fence.FenceClusterNetworkRequest{
			Cidrs: cidrs(fenced), Parameters: test.parameters,
		})
		f.refused(err, codes.InvalidArgument, `no parameter "`+test.unknown+`", only storageNetworks`)
		_, err = c.UnfenceClusterNetwork(t.Context(), &fence.UnfenceClusterNetworkRequest{
			Cidrs: cidrs(fenced), Parameters: test.parameters,
		})
		f.refused(err, codes.InvalidArgument, "create it with the same name and without this parameter")
		_, err = node.GetFenceClients(t.Context(),
			&fence.GetFenceClientsRequest{Parameters: test.parameters})
		f.refused(err, codes.InvalidArgument, "no parameter")
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
		if err := f.fence(f.controller(), fenced); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("for %v the error is %v", entry, err)
		}
		if rules := f.list(share); len(rules) != 1 {
			t.Errorf("the access rules are %v", rules)
		}
	}
}

func TestBusyManilaIsRetried(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0")
	_, err := f.cloud.SetFault(simulator.Fault{
		Mode: simulator.Status, Status: http.StatusConflict, Service: simulator.Share,
		Method: http.MethodPost, Times: 5,
	})
	f.must(err)
	f.must(f.fence(f.controller(), fenced))
	f.expectAccess(share, "", "rw", "rw")
}

func TestRuleThatManilaCouldNotApplyIsGrantedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0")
	fault := func(times int) {
		_, err := f.cloud.SetFault(simulator.Fault{
			Mode: simulator.Fail, Service: simulator.Share, Method: http.MethodPost,
			PathPrefix: "/share/v2/shares/" + share + "/action", Times: times,
		})
		f.must(err)
	}
	fault(3)
	if err := f.fence(f.controller(), fenced); status.Code(err) != codes.Unavailable {
		t.Errorf("the error is %v", err)
	}
	f.expectAccess(share, "rw", "rw", "rw") // nothing is revoked before all rules are active
	f.must(f.fence(f.controller(), fenced))
	f.expectAccess(share, "", "rw", "rw")
	fault(1)
	if err := f.unfence(f.controller(), fenced); status.Code(err) != codes.Unavailable {
		t.Errorf("the error is %v", err)
	}
	f.must(f.unfence(f.controller(), fenced))
	f.expectRules(share, "rw 0.0.0.0/0")
}

func TestShareThatCannotChangeDoesNotKeepOthersFromChanging(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	broken, healthy := f.share(cluster, "rw 10.0.0.5"), f.share(cluster, "rw 10.0.0.5")
	fault, err := f.cloud.SetFault(simulator.Fault{
		Mode: simulator.Status, Status: http.StatusBadGateway, Service: simulator.Share,
		Method: http.MethodPost, PathPrefix: "/share/v2/shares/" + broken,
	})
	f.must(err)
	err = f.fence(f.controller(), fenced)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), broken) {
		t.Errorf("the error is %v", err)
	}
	f.expectAccess(broken, "rw", "", "")
	f.expectAccess(healthy, "", "", "")
	f.must(f.cloud.ClearFaults(fault.ID))
	f.must(f.fence(f.controller(), fenced))
	f.expectAccess(broken, "", "", "")
}

func TestRequestsInProgressEndBeforeTheRulesAreRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster)
	stalled, err := f.cloud.SetFault(simulator.Fault{
		Mode: simulator.Stall, Service: simulator.Share, Method: http.MethodPost,
	})
	f.must(err)
	f.must(f.requests().Grant(t.Context(), share,
		openstack.AccessRule{Type: ipType, To: "0.0.0.0/0", Level: readWrite}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := f.controller()
	c.connect = func(context.Context) (shares, error) {
		return &listing{shares: f.requests(), listed: cancel}, nil
	}
	request := &fence.FenceClusterNetworkRequest{Cidrs: cidrs(fenced)}
	_, err = c.FenceClusterNetwork(ctx, request)
	if status.Code(err) != codes.Canceled || !strings.Contains(err.Error(), share) {
		t.Errorf("the error is %v", err)
	}
	f.must(f.cloud.ClearFaults(stalled.ID))
	f.must(f.fence(f.controller(), fenced))
	f.expectAccess(share, "", "rw", "rw")
}

func TestDeletedShareIsIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := worker{shares: f.requests(), interval: 1, limit: patience, fenced: &sync.Map{}}
	p := plan{before: record{fenced: networks(t, fenced), revoked: []rule{{to: "0.0.0.0/0"}}}}
	p.share.ID = "00000000-0000-0000-0000-000000000000"
	f.must(w.apply(t.Context(), p))
}

func TestUnreachableCloudIsUnavailable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.must(f.cloud.Close())
	if err := f.fence(f.controller(), fenced); status.Code(err) != codes.Unavailable {
		t.Errorf("the error is %v", err)
	}
}

// TestOperationContinuesAfterARestart ends the process after each change of a fence, and of an
// unfence. It checks after each change that the other clients have access.
func TestOperationContinuesAfterARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	originals := []string{"rw 10.0.0.0/29", "rw 10.0.0.5", "ro 192.168.0.0/16"}
	for changes, crashed := 0, true; crashed; changes++ {
		share := f.share(cluster, originals...)
		uninterrupted := func() {
			if f.access(share, neighbor) != "rw" || f.access(share, stranger) != "ro" {
				t.Errorf("after %d changes another client has no access", changes)
			}
		}
		c, requests := f.crashAfter(changes, uninterrupted)
		err := f.fence(c, fenced)
		crashed = requests.left == 0 && err != nil
		if !crashed && err != nil {
			t.Fatal(err)
		}
		f.must(f.fence(f.controller(), fenced))
		f.expectAccess(share, "", "rw", "ro")
		c, requests = f.crashAfter(changes, uninterrupted)
		err = f.unfence(c, fenced)
		crashed = crashed || (requests.left == 0 && err != nil)
		f.must(f.unfence(f.controller(), fenced))
		f.expectRules(share, originals...)
		// The operations are also the opposite of an operation that did not end.
		c, _ = f.crashAfter(changes, uninterrupted)
		_ = f.fence(c, fenced) // crashes
		f.must(f.unfence(f.controller(), fenced))
		f.expectRules(share, originals...)
		f.must(f.requests().SetMetadata(t.Context(), share, map[string]string{clusterKey: "done"}))
	}
}

func TestNodeReturnsItsAddressesInTheStorageNetworks(t *testing.T) {
	t.Parallel()
	interfaces := []net.Addr{
		&net.IPNet{IP: net.ParseIP("10.0.0.5"), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("172.16.0.5"), Mask: net.CIDRMask(16, 32)},
		&net.IPNet{IP: net.ParseIP("fd00::5"), Mask: net.CIDRMask(64, 128)},
	}
	node := Node{
		Name:      "node-1",
		Defaults:  []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::5")},
		Addresses: func() ([]net.Addr, error) { return interfaces, nil },
	}
	for parameter, want := range map[string][]string{
		"":                          {"10.0.0.5/32", "fd00::5/128"}, // a node of two families
		"172.16.0.0/12":             {"172.16.0.5/32"},
		"172.16.0.0/12, fd00::/64":  {"172.16.0.5/32", "fd00::5/128"},
		"192.168.0.0/16":            nil,
		"172.16.0.0/12;10.0.0.0/24": nil,
	} {
		answer, err := node.GetFenceClients(t.Context(), &fence.GetFenceClientsRequest{
			Parameters: map[string]string{v1alpha1.StorageNetworksParameter: parameter},
		})
		if (err != nil) != (want == nil) {
			t.Errorf("for the networks %q the error is %v", parameter, err)
		}
		for _, client := range answer.GetClients() {
			var got []string
			for _, address := range client.GetAddresses() {
				got = append(got, address.GetCidr())
			}
			if diff := cmp.Diff(want, got); diff != "" || client.GetId() != "node-1" {
				t.Errorf("client %s of the networks %q (-want +got):\n%s", client.GetId(), parameter, diff)
			}
		}
	}
}
