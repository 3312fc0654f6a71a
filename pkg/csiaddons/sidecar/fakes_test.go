package sidecar

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const driverName = "example.csi.openstack.org"

// soon bounds a wait on a busy machine.
const soon = time.Minute

// fakeDriver is the driver's side of CSI-Addons. It records the last request of each kind.
type fakeDriver struct {
	identity.UnimplementedIdentityServer
	reclaimspace.UnimplementedReclaimSpaceControllerServer
	reclaimspace.UnimplementedReclaimSpaceNodeServer
	fence.UnimplementedFenceControllerServer

	// NodeOnly means that the driver has no controller service, ControllerOnly no node service.
	NodeOnly, ControllerOnly bool

	mu         sync.Mutex
	probes     int
	notReady   int // probes that return "not ready"
	controller *reclaimspace.ControllerReclaimSpaceRequest
	node       *reclaimspace.NodeReclaimSpaceRequest
	fenced     *fence.FenceClusterNetworkRequest
	unfenced   *fence.UnfenceClusterNetworkRequest
	clients    *fence.GetFenceClientsRequest
	// block makes calls of the controller service wait until they are cancelled.
	block chan struct{}
}

// startDriver serves a driver on a socket until the test ends, and returns a client of it.
func startDriver(t *testing.T, d *fakeDriver) *driver.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	identity.RegisterIdentityServer(server, d)
	reclaimspace.RegisterReclaimSpaceControllerServer(server, d)
	reclaimspace.RegisterReclaimSpaceNodeServer(server, d)
	fence.RegisterFenceControllerServer(server, d)
	go func() { _ = server.Serve(listener) }() // ends without an error when it is stopped
	t.Cleanup(server.Stop)
	client, err := driver.New(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (d *fakeDriver) GetIdentity(context.Context, *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{Name: driverName, VendorVersion: "v1"}, nil
}

func (d *fakeDriver) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	var services []identity.Capability_Service_Type
	if !d.ControllerOnly {
		services = append(services, identity.Capability_Service_NODE_SERVICE)
	}
	if !d.NodeOnly {
		services = append(services, identity.Capability_Service_CONTROLLER_SERVICE)
	}
	response := &identity.GetCapabilitiesResponse{}
	for _, service := range services {
		response.Capabilities = append(response.Capabilities, &identity.Capability{
			Type: &identity.Capability_Service_{Service: &identity.Capability_Service{Type: service}},
		})
	}
	return response, nil
}

func (d *fakeDriver) Probe(context.Context, *identity.ProbeRequest,
) (*identity.ProbeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probes++
	return &identity.ProbeResponse{Ready: wrapperspb.Bool(d.probes > d.notReady)}, nil
}

func (d *fakeDriver) ControllerReclaimSpace(
	ctx context.Context, request *reclaimspace.ControllerReclaimSpaceRequest,
) (*reclaimspace.ControllerReclaimSpaceResponse, error) {
	d.mu.Lock()
	d.controller = request
	d.mu.Unlock()
	if d.block != nil {
		close(d.block)
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return nil, status.Error(codes.Unimplemented, "the cloud cannot discard")
}

func (d *fakeDriver) NodeReclaimSpace(_ context.Context,
	request *reclaimspace.NodeReclaimSpaceRequest,
) (*reclaimspace.NodeReclaimSpaceResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.node = request
	return &reclaimspace.NodeReclaimSpaceResponse{
		PreUsage: &reclaimspace.StorageConsumption{UsageBytes: 200},
	}, nil
}

func (d *fakeDriver) FenceClusterNetwork(ctx context.Context,
	request *fence.FenceClusterNetworkRequest,
) (*fence.FenceClusterNetworkResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fenced = request
	return &fence.FenceClusterNetworkResponse{}, grpc.SetTrailer(ctx,
		metadata.Pairs(wire.ChangedSharesTrailer, "3"))
}

func (d *fakeDriver) UnfenceClusterNetwork(_ context.Context,
	request *fence.UnfenceClusterNetworkRequest,
) (*fence.UnfenceClusterNetworkResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unfenced = request
	return &fence.UnfenceClusterNetworkResponse{}, nil
}

func (d *fakeDriver) GetFenceClients(_ context.Context, request *fence.GetFenceClientsRequest,
) (*fence.GetFenceClientsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients = request
	return &fence.GetFenceClientsResponse{Clients: []*fence.ClientDetails{
		{Id: "worker-1", Addresses: []*fence.CIDR{{Cidr: "10.0.0.1/32"}}},
	}}, nil
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, condition func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, soon, true,
		func(ctx context.Context) (bool, error) { return condition(ctx), nil })
	if err != nil {
		t.Fatalf("waited %v for this: %s", soon, what)
	}
}
