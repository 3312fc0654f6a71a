package wire_test

import (
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

func TestEndpointNamesPodNamespaceAndPort(t *testing.T) {
	t.Parallel()
	longest := wire.Endpoint{
		Pod: strings.Repeat("p", 253), Namespace: strings.Repeat("n", 63), Port: 65535,
	}
	if got := len(longest.String()); got != wire.MaxEndpoint {
		t.Errorf("the longest endpoint has %d bytes, not %d", got, wire.MaxEndpoint)
	}
	for text, want := range map[string]wire.Endpoint{
		"pod://node-x7k2p.csi:9070":  {Pod: "node-x7k2p", Namespace: "csi", Port: 9070},
		"pod://etcd-a.example.csi:1": {Pod: "etcd-a.example", Namespace: "csi", Port: 1},
		longest.String():             longest,
	} {
		got, err := wire.ParseEndpoint(text)
		assert.Check(t, err, text)
		assert.Check(t, is.DeepEqual(want, got), text)
		assert.Check(t, got.String() == text, "%s is written as %s", text, got)
	}
}

func TestEndpointOfAnotherFormIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "10.0.0.1:9070", "pod://", "pod://node.csi", "pod://node:9070", "pod://node.csi:0",
		"pod://node.csi:65536", "pod://node.csi:9070/path", "pod://user@node.csi:9070",
		"pod://node.csi:9070?a=b", "pod://node.csi:9070#a", "https://node.csi:9070",
		"pod://node..csi:9070", "pod://.csi:9070", "pod://NODE.csi:9070", "pod://[::1]:9070",
		"pod://node.csi:9070\n", "pod://node.csi:" + strings.Repeat("0", 400) + "9070",
	} {
		if got, err := wire.ParseEndpoint(text); err == nil {
			t.Errorf("endpoint %q is accepted as %+v", text, got)
		}
	}
}

func TestNamesOfObjectsDiffer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", validation.DNS1123SubdomainMaxLength)
	names := map[string][2]string{}
	for _, pair := range [][2]string{
		{"pod", "cinder"},
		{"pod", "manila"},
		{"pod-2", "cinder"},
		{"pod.a", "b"},
		{"pod", "a.b"},
		{long, "cinder"},
		{long, "manila"},
		{long[1:] + "b", "cinder"},
	} {
		name := wire.ObjectName(pair[0], pair[1])
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			t.Errorf("%q is no name of an object: %v", name, errs)
		}
		if other, ok := names[name]; ok {
			t.Errorf("%s and %s have the same name %s", pair, other, name)
		}
		names[name] = pair
	}
}

// The controller of the CSI-Addons for Ceph finds the leader by this name.
func TestLeaseNameIsThatOfTheExistingSystem(t *testing.T) {
	t.Parallel()
	for driver, want := range map[string]string{
		"cinder.csi.openstack.org":  "cinder-csi-openstack-org-csi-addons",
		"nfs.manila_csi":            "nfs-manila-csi-csi-addons",
		"Example.CSI.openstack.org": "example-csi-openstack-org-csi-addons",
		"driver.":                   "driver-x-csi-addons",
		"driver-":                   "driver-x-csi-addons",
	} {
		assert.Check(t, is.Equal(wire.LeaseName(driver), want), "the Lease of %s", driver)
	}
}

// The controller of the CSI-Addons for Ceph compares the holder of a Lease with this name.
func TestLeaseHolderIsThatOfTheExistingSystem(t *testing.T) {
	t.Parallel()
	for pod, want := range map[string]string{
		"manila-controller-7d9f-x2k": "manila-controller-7d9f-x2k",
		"rook-ceph.rbd.csi.ceph.com": "rook-ceph-rbd-csi-ceph-com",
		"a.b-0":                      "a-b-0",
	} {
		assert.Check(t, is.Equal(wire.LeaseHolder(pod), want), "the holder of the Lease in pod %s", pod)
	}
}

// The numbers of fields are those of the CSI-Addons for Ceph, also in other messages.
func TestFieldsHaveTheNumbersOfTheExistingSystem(t *testing.T) {
	t.Parallel()
	for text, message := range map[string]proto.Message{
		"\n\x01a": &wire.ReclaimSpaceRequest{PvName: "a"},
		"\n\x02\b\x01\x12\x02\b\x02": &wire.ReclaimSpaceResponse{
			PreUsage:  &wire.StorageConsumption{UsageBytes: 1},
			PostUsage: &wire.StorageConsumption{UsageBytes: 2},
		},
		"\n\x06\n\x01k\x12\x01v\x12\x01a\x1a\x01b\"\x01c": &wire.NetworkFenceRequest{
			Parameters: map[string]string{"k": "v"}, SecretName: "a", SecretNamespace: "b",
			Cidrs: []string{"c"},
		},
		"": &wire.NetworkFenceResponse{},
		"\n\x06\n\x01a\x12\x01b": &wire.FenceClientsResponse{
			Clients: []*wire.ClientDetails{{Id: "a", Cidrs: []string{"b"}}},
		},
	} {
		got, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		assert.NilError(t, err)
		assert.Check(t, is.Equal(string(got), text), "%T", message)
	}
}

func TestNetworksHaveOneText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ cidr, network string }{
		"10.0.0.5": {"", "10.0.0.5/32"}, "10.0.0.5/24": {"10.0.0.0/24", "10.0.0.0/24"},
		"0.0.0.0/0": {"0.0.0.0/0", "0.0.0.0/0"}, "::/0": {"::/0", "::/0"},
		"fd00::1": {"", "fd00::1/128"}, "::ffff:10.0.0.5": {"", "10.0.0.5/32"},
		"::ffff:10.0.0.5/128": {"10.0.0.5/32", "10.0.0.5/32"},
		"::ffff:10.0.0.5/104": {"10.0.0.0/8", "10.0.0.0/8"},
		"::ffff:0.0.0.0/96":   {"0.0.0.0/0", "0.0.0.0/0"},
		"::ffff:0.0.0.0/95":   {}, "": {}, "10.0.0.0/33": {}, "host": {}, "fe80::1%eth0": {},
	} {
		cidr, errCIDR := wire.ParseCIDR(text)
		network, errNetwork := wire.ParseNetwork(text)
		for _, got := range []struct {
			network netip.Prefix
			err     error
			want    string
		}{{cidr, errCIDR, want.cidr}, {network, errNetwork, want.network}} {
			assert.Check(t, (got.err != nil) == (got.want == "") &&
				(got.err != nil || got.network.String() == got.want),
				"%q is parsed as %v, %v", text, got.network, got.err)
		}
	}
}
