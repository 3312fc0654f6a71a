package wire

import (
	"context"
	"path"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"google.golang.org/grpc"
)

// The services of a sidecar. Names of services and methods are those of the CSI-Addons for Ceph.
const (
	ReclaimSpace = "proto.ReclaimSpace"
	NetworkFence = "proto.NetworkFence"
)

// The methods of a sidecar. For ControllerReclaimSpace, the volume may be detached.
// NodeReclaimSpace is about a volume that is mounted on the node of the sidecar, and
// GetFenceClients about the clients of this node.
const (
	ControllerReclaimSpace reclaim       = "/" + ReclaimSpace + "/ControllerReclaimSpace"
	NodeReclaimSpace       reclaim       = "/" + ReclaimSpace + "/NodeReclaimSpace"
	FenceClusterNetwork    changeOfFence = "/" + NetworkFence + "/FenceClusterNetwork"
	UnFenceClusterNetwork  changeOfFence = "/" + NetworkFence + "/UnFenceClusterNetwork"
	GetFenceClients        listOfClients = "/" + NetworkFence + "/GetFenceClients"
)

type (
	reclaim       = Method[ReclaimSpaceRequest, ReclaimSpaceResponse]
	changeOfFence = Method[NetworkFenceRequest, NetworkFenceResponse]
	listOfClients = Method[FenceClientsRequest, FenceClientsResponse]
)

type (
	// ReclaimSpaceResponse has the fields of a message of the specification.
	ReclaimSpaceResponse = reclaimspace.NodeReclaimSpaceResponse
	// StorageConsumption has the fields of a message of the specification.
	StorageConsumption = reclaimspace.StorageConsumption
	// NetworkFenceResponse is empty.
	NetworkFenceResponse = fence.FenceClusterNetworkResponse
	// FenceClientsRequest contains no CIDRs.
	FenceClientsRequest = NetworkFenceRequest
)

// Method is the path of a method, with the types of its request and of its response.
type Method[In, Out any] string

// Name returns the name of the method in its service.
func (m Method[In, Out]) Name() string { return path.Base(string(m)) }

// Call calls the method.
func (m Method[In, Out]) Call(ctx context.Context, on grpc.ClientConnInterface, request *In,
	options ...grpc.CallOption,
) (*Out, error) {
	response := new(Out)
	if err := on.Invoke(ctx, string(m), request, response, options...); err != nil {
		return nil, err
	}
	return response, nil
}

// By returns the method for Register, with the function that serves it.
func (m Method[In, Out]) By(serve func(context.Context, *In) (*Out, error)) grpc.MethodDesc {
	handle := func(ctx context.Context, request any) (any, error) { return serve(ctx, request.(*In)) }
	return grpc.MethodDesc{MethodName: m.Name(), Handler: func(_ any, ctx context.Context,
		decode func(any) error, check grpc.UnaryServerInterceptor,
	) (any, error) {
		request := new(In)
		if err := decode(request); err != nil {
			return nil, err
		}
		if check == nil {
			return handle(ctx, request)
		}
		return check(ctx, request, &grpc.UnaryServerInfo{FullMethod: string(m)}, handle)
	}}
}

// Register adds a service to a server. Calls of its other methods return UNIMPLEMENTED.
func Register(to grpc.ServiceRegistrar, service string, methods ...grpc.MethodDesc) {
	to.RegisterService(&grpc.ServiceDesc{ServiceName: service, Methods: methods}, nil)
}
