package sidecar

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
)

// client is the client of a connection.
type client struct {
	credentials.AuthInfo

	address string
	// accepted is true if the last token that was checked was accepted.
	accepted atomic.Bool
	// end closes the connection.
	end *time.Timer
}

// clientOf returns the client of the connection of a call.
func clientOf(ctx context.Context) *client {
	caller, _ := peer.FromContext(ctx) // gRPC adds it to the context of each call
	return caller.AuthInfo.(*client)
}

// accept keeps the connection open, because the client may call.
func (c *client) accept() {
	c.accepted.Store(true)
	c.end.Stop()
}

// temporary closes connections whose client sends no accepted token. MaxConnectionIdle of gRPC
// would also close those of a controller, which keeps one to each sidecar. Most of these are idle.
type temporary struct {
	credentials.TransportCredentials
}

// ServerHandshake adds the client to the context of its calls.
func (t temporary) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err // gRPC compares it
	}
	end := time.AfterFunc(tokenTimeout, func() { _ = raw.Close() })
	return secured, &client{AuthInfo: info, address: raw.RemoteAddr().String(), end: end}, nil
}

// connections counts open connections.
type connections struct{ open prometheus.Gauge }

func (connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (connections) HandleRPC(context.Context, stats.RPCStats) {}

func (connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (c connections) HandleConn(_ context.Context, event stats.ConnStats) {
	switch event.(type) {
	case *stats.ConnBegin:
		c.open.Inc()
	case *stats.ConnEnd:
		c.open.Dec()
	}
}
