package sidecar

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"
	"k8s.io/component-base/metrics"
)

// client is what the sidecar knows about the client of a connection.
type client struct {
	// accepted says that the client has sent a token that was accepted.
	accepted atomic.Bool
}

type clientKey struct{}

// clientOf returns the client of the connection of a call.
func clientOf(ctx context.Context) *client {
	if found, ok := ctx.Value(clientKey{}).(*client); ok {
		return found
	}
	return &client{}
}

// connections counts open connections, and adds the client to the context of their calls.
type connections struct{ open *metrics.Gauge }

func (connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (connections) HandleRPC(context.Context, stats.RPCStats) {}

func (connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, clientKey{}, &client{})
}

func (c connections) HandleConn(_ context.Context, event stats.ConnStats) {
	switch event.(type) {
	case *stats.ConnBegin:
		c.open.Inc()
	case *stats.ConnEnd:
		c.open.Dec()
	}
}
