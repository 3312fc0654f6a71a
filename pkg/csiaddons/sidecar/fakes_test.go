package sidecar

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const driverName = "example.csi.openstack.org"

// soon bounds a wait on a busy machine.
const soon = time.Minute

// answers are those of the driver.
type answers struct {
	services []identity.Capability_Service_Type
	probes   atomic.Int32
	notReady int32 // probes that return "not ready"
	// block makes calls of the controller service wait until they are cancelled.
	block chan struct{}
}

func (a *answers) answer(ctx context.Context, method string) (proto.Message, error) {
	switch method {
	case "GetIdentity":
		return &identity.GetIdentityResponse{Name: driverName, VendorVersion: "v1"}, nil
	case "GetCapabilities":
		response := &identity.GetCapabilitiesResponse{}
		for _, service := range a.services {
			response.Capabilities = append(response.Capabilities, &identity.Capability{
				Type: &identity.Capability_Service_{Service: &identity.Capability_Service{Type: service}},
			})
		}
		return response, nil
	case "Probe":
		ready := a.probes.Add(1) > a.notReady
		return &identity.ProbeResponse{Ready: wrapperspb.Bool(ready)}, nil
	case "ControllerReclaimSpace":
		if a.block == nil {
			return nil, status.Error(codes.Unimplemented, "the cloud cannot discard")
		}
		close(a.block)
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case "NodeReclaimSpace":
		return &reclaimspace.NodeReclaimSpaceResponse{
			PreUsage: &reclaimspace.StorageConsumption{UsageBytes: 200},
		}, nil
	case "FenceClusterNetwork":
		return nil, grpc.SetTrailer(ctx, metadata.Pairs(wire.ChangedSharesTrailer, "3"))
	case "GetFenceClients":
		return &fence.GetFenceClientsResponse{Clients: []*fence.ClientDetails{
			{Id: "worker-1", Addresses: []*fence.CIDR{{Cidr: "10.0.0.1/32"}}},
		}}, nil
	default:
		return nil, nil
	}
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, condition func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, soon, true,
		func(ctx context.Context) (bool, error) { return condition(ctx), nil })
	assert.Assert(t, err == nil, "waited %v for this: %s", soon, what)
}
