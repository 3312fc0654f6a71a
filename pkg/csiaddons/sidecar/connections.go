package sidecar

import (
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"k8s.io/component-base/metrics"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/callers"
)

// client is what the sidecar knows about the client of a connection.
type client struct {
	credentials.AuthInfo

	connection *callers.Connection // nil if no Listener of callers has accepted it
	// accepted says that the last token that was checked was accepted.
	accepted atomic.Bool
	// calls is the number of calls while accepted was not set.
	calls atomic.Int32
}

// clientOf returns the client of the connection of a call.
func clientOf(ctx context.Context) *client {
	if caller, ok := peer.FromContext(ctx); ok {
		if found, ok := caller.AuthInfo.(*client); ok {
			return found
		}
	}
	return &client{}
}

// know says that the client may call, so that the limits for strangers do not apply to it.
func (c *client) know() {
	c.accepted.Store(true)
	c.calls.Store(0)
	if c.connection != nil {
		c.connection.Keep()
	}
}

// exceeds counts a call. It closes the connection and returns true if a stranger has sent too many.
func (c *client) exceeds() bool {
	if c.accepted.Load() || c.calls.Add(1) <= strangerCalls {
		return false
	}
	if c.connection != nil {
		_ = c.connection.Close()
	}
	return true
}

// open is a gRPC interceptor that accepts all clients.
func open(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	clientOf(ctx).know()
	return handler(ctx, request)
}

// identifying adds the client to the context of calls.
type identifying struct {
	credentials.TransportCredentials
}

// ServerHandshake identifies the client of a connection.
func (i identifying) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := i.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err // gRPC compares it
	}
	connection, _ := raw.(*callers.Connection)
	return secured, &client{AuthInfo: info, connection: connection}, nil
}

// Clone returns a copy.
func (i identifying) Clone() credentials.TransportCredentials {
	return identifying{i.TransportCredentials.Clone()}
}

// connections counts open connections. With a connection, it ends the contexts of its calls: gRPC
// does not end that of a call which a tap handle refuses, so its timer would stay.
type connections struct{ open *metrics.Gauge }

type endKey struct{}

func (connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (connections) HandleRPC(context.Context, stats.RPCStats) {}

func (connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	ctx, end := context.WithCancel(ctx)
	return context.WithValue(ctx, endKey{}, end)
}

func (c connections) HandleConn(ctx context.Context, event stats.ConnStats) {
	switch event.(type) {
	case *stats.ConnBegin:
		c.open.Inc()
	case *stats.ConnEnd:
		c.open.Dec()
		ctx.Value(endKey{}).(context.CancelFunc)()
	}
}
