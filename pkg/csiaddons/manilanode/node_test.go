package manilanode

import (
	"net"
	"testing"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

func TestNodeReturnsItsAddressesInTheStorageNetworks(t *testing.T) {
	t.Parallel()
	interfaces := []net.Addr{
		&net.IPNet{IP: net.ParseIP("10.0.0.5"), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("172.16.0.5"), Mask: net.CIDRMask(16, 32)},
		&net.IPNet{IP: net.ParseIP("fd00::5"), Mask: net.CIDRMask(64, 128)},
	}
	node := Node{
		Name:      "node-1",
		Defaults:  []net.IP{net.ParseIP("10.0.0.5"), net.ParseIP("fd00::5")},
		Addresses: func() ([]net.Addr, error) { return interfaces, nil },
	}
	_, err := node.GetFenceClients(t.Context(),
		&fence.GetFenceClientsRequest{Parameters: map[string]string{"x": ""}})
	assert.Check(t, status.Code(err) == codes.InvalidArgument,
		"an unknown parameter is answered by %v", err)
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
		assert.Check(t, (err != nil) == (want == nil),
			"for the networks %q the error is %v", parameter, err)
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
