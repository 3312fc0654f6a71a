package sidecar

import (
	"testing"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
)

func TestSidecarServesAddressesOfManilasNodes(t *testing.T) {
	t.Parallel()
	settings, err := loadSettings(t, podFlags("--manila-node-addresses=10.0.0.5,fd00::5")...)
	assert.NilError(t, err)
	client, err := connect(settings)
	assert.NilError(t, err)
	defer func() { _ = client.Close() }()
	got, err := client.Describe(t.Context())
	want := driver.Description{Name: "manila.csi.openstack.org", Node: true}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("the description is %v (-want +got):\n%s", err, diff)
	}
	all, err := client.Identity.GetCapabilities(t.Context(), &identity.GetCapabilitiesRequest{})
	if err != nil || all.GetCapabilities()[1].GetNetworkFence().GetType() !=
		identity.Capability_NetworkFence_GET_CLIENTS_TO_FENCE {
		t.Errorf("the capabilities are %v, %v", all, err)
	}
	answer, err := client.Fence.GetFenceClients(t.Context(), &fence.GetFenceClientsRequest{})
	if err != nil || answer.GetClients()[0].GetId() != "worker-1" ||
		answer.GetClients()[0].GetAddresses()[1].GetCidr() != "fd00::5/128" {
		t.Errorf("the clients are %v, %v", answer, err)
	}
	_, err = client.Fence.FenceClusterNetwork(t.Context(), &fence.FenceClusterNetworkRequest{})
	assert.Check(t, status.Code(err) == codes.Unimplemented, "a fence is answered by %v", err)
}
