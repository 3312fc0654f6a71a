package sidecar

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// client is a client and its connection.
type client struct {
	net.Conn
	credentials.AuthInfo

	listener *limited
	// accepted is true if the last token that was checked was accepted.
	accepted atomic.Bool
}

func clientOf(ctx context.Context) *client {
	caller, _ := peer.FromContext(ctx) // gRPC adds it to the context of each call
	return caller.AuthInfo.(*client)
}

// Close implements net.Conn.
func (c *client) Close() error {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.open = slices.DeleteFunc(c.listener.open, func(one *client) bool { return one == c })
	c.listener.metric.Set(float64(len(c.listener.open)))
	return c.Conn.Close()
}

// limited limits the connections of a listener. A connection beyond the limit ends the oldest one
// without an accepted token. So clients that only connect keep no controller away. A limit of time
// would also end connections of a controller, most of which are idle.
type limited struct {
	net.Listener

	// everybody says that clients need no token, so no connection ends for another one.
	everybody bool
	metric    prometheus.Gauge

	mu   sync.Mutex
	open []*client // the oldest first
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err // gRPC compares it
	}
	added := &client{Conn: raw, listener: l}
	if surplus := l.add(added); surplus != nil {
		_ = surplus.Close() // fails only if the client has closed it
	}
	return added, nil
}

// add returns the connection to close, or nil: the new one if all others have an accepted token.
func (l *limited) add(added *client) *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, added)
	l.metric.Set(float64(len(l.open)))
	if len(l.open) <= maxConnections {
		return nil
	}
	if l.everybody {
		return added
	}
	return l.open[slices.IndexFunc(l.open, func(c *client) bool { return !c.accepted.Load() })]
}

// attributed adds the client to the context of its calls.
type attributed struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (a attributed) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := a.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err // gRPC compares it
	}
	caller := raw.(*client)
	caller.AuthInfo = info
	return secured, caller, nil
}
