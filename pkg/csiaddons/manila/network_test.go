package manila

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		parts, ok := without(networks(t, test.network)[0], networks(t, test.fenced...), 100)
		if diff := cmp.Diff(networks(t, test.want...), parts, cmp.Comparer(
			func(a, b netip.Prefix) bool { return a == b })); diff != "" || !ok {
			t.Errorf("%s without %v (-want +got):\n%s", test.network, test.fenced, diff)
		}
	}
}

func TestDefaultRuleOfTheDriverIsReplacedByOneRuleForEachBit(t *testing.T) {
	t.Parallel()
	for network, bits := range map[string]int{"0.0.0.0/0": 32, "::/0": 128} {
		all := networks(t, network)[0]
		client := networks(t, map[int]string{32: "10.1.2.3", 128: "fd00::1:2:3"}[bits])
		parts, ok := without(all, client, bits)
		if len(parts) != bits || !ok {
			t.Errorf("%s without %v has %d parts", network, client, len(parts))
		}
		for _, part := range parts {
			if overlapsAny(part, client) {
				t.Errorf("%s contains the client", part)
			}
		}
		if _, ok := without(all, client, bits-1); ok {
			t.Errorf("%d parts are within the limit %d", bits, bits-1)
		}
	}
}
