package sidecar

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// check is a gRPC interceptor that refuses operations of a service that the driver does not serve
// in this pod, and operations of the controller service unless this pod is the leader. The code
// UNIMPLEMENTED would say that no pod of the driver has the operation: a success for a controller.
func (e *election) check(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	controller := ofController(info.FullMethod)
	switch {
	case controller && !e.described.Controller:
		return nil, e.noService("controller")
	case controller:
		return e.handleAsLeader(ctx, request, handler)
	case ofNode(info.FullMethod) && !e.described.Node:
		return nil, e.noService("node")
	default:
		return handler(ctx, request)
	}
}

func (e *election) noService(service string) error {
	return status.Errorf(codes.FailedPrecondition, "driver %s has no %s service in pod %s",
		e.described.Name, service, e.pod)
}

// handleAsLeader cancels an operation when the pod loses the Lease.
func (e *election) handleAsLeader(ctx context.Context, request any, handler grpc.UnaryHandler,
) (any, error) {
	term, err := e.current()
	if err != nil {
		return nil, err
	}
	ctx, unbind := term.bind(ctx)
	defer unbind()
	response, err := handler(ctx, request)
	if err != nil && errors.Is(context.Cause(ctx), errLostLease) {
		return nil, status.Errorf(codes.Aborted, "pod %s lost the Lease %s/%s of driver %s during the "+
			"operation: call the next leader", e.pod, e.settings.Namespace,
			wire.LeaseName(e.described.Name), e.described.Name)
	}
	return response, err
}

// ofController returns whether an operation belongs to the controller service of a driver.
func ofController(method string) bool {
	switch method {
	case wire.ReclaimSpace_ControllerReclaimSpace_FullMethodName,
		wire.NetworkFence_FenceClusterNetwork_FullMethodName,
		wire.NetworkFence_UnFenceClusterNetwork_FullMethodName:
		return true
	default:
		return false
	}
}

// ofNode returns whether an operation belongs to the node service of a driver.
func ofNode(method string) bool {
	return method == wire.ReclaimSpace_NodeReclaimSpace_FullMethodName
}
