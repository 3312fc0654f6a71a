//go:build integration

package csiaddons

import (
	"context"
	"sync/atomic"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
)

// Capabilities of drivers.
const (
	nodeService       = identity.Capability_Service_NODE_SERVICE
	controllerService = identity.Capability_Service_CONTROLLER_SERVICE
	online            = identity.Capability_ReclaimSpace_ONLINE
	offline           = identity.Capability_ReclaimSpace_OFFLINE
)

type (
	services = []identity.Capability_Service_Type
	reclaims = []identity.Capability_ReclaimSpace_Type
)

// storageAddress is the client that drivers report. It is no address of a Node.
const storageAddress = "172.16.0.1/32"

// usage is what a driver reports before and after a call.
type usage struct{ pre, post int64 }

// fakeDriver is the driver's side of CSI-Addons in one pod.
type fakeDriver struct {
	identity.UnimplementedIdentityServer
	reclaimspace.UnimplementedReclaimSpaceControllerServer
	reclaimspace.UnimplementedReclaimSpaceNodeServer
	fence.UnimplementedFenceControllerServer

	name     string
	services []identity.Capability_Service_Type
	reclaims []identity.Capability_ReclaimSpace_Type
	// onNode and inController serve the calls.
	onNode, inController func(context.Context) (usage, error)
	// nodeCalls and controllerCalls count the calls, and secrets contains those of the last one.
	nodeCalls, controllerCalls atomic.Int32
	secrets                    atomic.Pointer[map[string]string]
	// fences are the capabilities for NetworkFences. fenced and unfenced receive the requests, and
	// the calls return what fenceErrors contains first.
	fences      []identity.Capability_NetworkFence_Type
	fenced      chan *fence.FenceClusterNetworkRequest
	unfenced    chan *fence.UnfenceClusterNetworkRequest
	fenceErrors chan error
}

// nodeDriver returns a driver whose node service reclaims 8 bytes of each volume.
func nodeDriver(name string) *fakeDriver {
	return &fakeDriver{
		name: name, services: services{nodeService}, reclaims: reclaims{online},
		onNode: answers(9, 1, nil),
	}
}

func (d *fakeDriver) FenceClusterNetwork(_ context.Context,
	request *fence.FenceClusterNetworkRequest,
) (*fence.FenceClusterNetworkResponse, error) {
	select {
	case err := <-d.fenceErrors:
		return nil, err
	default:
	}
	d.fenced <- request
	return &fence.FenceClusterNetworkResponse{}, nil
}

func (d *fakeDriver) UnfenceClusterNetwork(_ context.Context,
	request *fence.UnfenceClusterNetworkRequest,
) (*fence.UnfenceClusterNetworkResponse, error) {
	d.unfenced <- request
	return &fence.UnfenceClusterNetworkResponse{}, nil
}

func (d *fakeDriver) GetFenceClients(context.Context, *fence.GetFenceClientsRequest,
) (*fence.GetFenceClientsResponse, error) {
	return &fence.GetFenceClientsResponse{Clients: []*fence.ClientDetails{
		{Id: "worker-1", Addresses: []*fence.CIDR{{Cidr: storageAddress}}},
	}}, nil
}

func (d *fakeDriver) Probe(context.Context, *identity.ProbeRequest,
) (*identity.ProbeResponse, error) {
	return &identity.ProbeResponse{}, nil
}

func (d *fakeDriver) GetIdentity(context.Context, *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{Name: d.name}, nil
}

func (d *fakeDriver) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	response := &identity.GetCapabilitiesResponse{}
	add := func(c *identity.Capability) { response.Capabilities = append(response.Capabilities, c) }
	for _, one := range d.services {
		service := &identity.Capability_Service{Type: one}
		add(&identity.Capability{Type: &identity.Capability_Service_{Service: service}})
	}
	for _, one := range d.reclaims {
		reclaim := &identity.Capability_ReclaimSpace{Type: one}
		add(&identity.Capability{Type: &identity.Capability_ReclaimSpace_{ReclaimSpace: reclaim}})
	}
	for _, one := range d.fences {
		network := &identity.Capability_NetworkFence{Type: one}
		add(&identity.Capability{Type: &identity.Capability_NetworkFence_{NetworkFence: network}})
	}
	return response, nil
}

func (d *fakeDriver) NodeReclaimSpace(
	ctx context.Context, request *reclaimspace.NodeReclaimSpaceRequest,
) (*reclaimspace.NodeReclaimSpaceResponse, error) {
	d.nodeCalls.Add(1)
	d.secrets.Store(&request.Secrets)
	used, err := d.onNode(ctx)
	return &reclaimspace.NodeReclaimSpaceResponse{
		PreUsage:  &reclaimspace.StorageConsumption{UsageBytes: used.pre},
		PostUsage: &reclaimspace.StorageConsumption{UsageBytes: used.post},
	}, err
}

func (d *fakeDriver) ControllerReclaimSpace(
	ctx context.Context, request *reclaimspace.ControllerReclaimSpaceRequest,
) (*reclaimspace.ControllerReclaimSpaceResponse, error) {
	d.controllerCalls.Add(1)
	d.secrets.Store(&request.Secrets)
	used, err := d.inController(ctx)
	return &reclaimspace.ControllerReclaimSpaceResponse{
		PreUsage:  &reclaimspace.StorageConsumption{UsageBytes: used.pre},
		PostUsage: &reclaimspace.StorageConsumption{UsageBytes: used.post},
	}, err
}

// answers returns a function that returns the same result each time.
func answers(pre, post int64, err error) func(context.Context) (usage, error) {
	return func(context.Context) (usage, error) { return usage{pre: pre, post: post}, err }
}
