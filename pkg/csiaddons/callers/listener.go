package callers

import (
	"net"
	"sync"
)

// Listener accepts a limited number of connections at the same time: of all clients, and of each
// network. It closes others at once. It is safe for concurrent use.
type Listener struct {
	net.Listener

	all, each int

	mu sync.Mutex
	// open are the numbers of connections by network.
	open map[string]int
	sum  int
}

// Limit returns a listener with limits for all connections, and for each network.
func Limit(listener net.Listener, all, each int) *Listener {
	return &Listener{Listener: listener, all: all, each: each, open: map[string]int{}}
}

// Accept waits for a connection within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // the server compares it with net.ErrClosed
		}
		network := Network(accepted.RemoteAddr().String())
		if l.take(network) {
			return &connection{accepted, sync.OnceFunc(func() { l.release(network) })}, nil
		}
		_ = accepted.Close()
	}
}

func (l *Listener) take(network string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sum >= l.all || l.open[network] >= l.each {
		return false
	}
	l.sum++
	l.open[network]++
	return true
}

func (l *Listener) release(network string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum--
	l.open[network]--
	if l.open[network] == 0 {
		delete(l.open, network)
	}
}

// connection is a connection that counts until it is closed.
type connection struct {
	net.Conn

	release func()
}

// Close closes the connection.
func (c *connection) Close() error {
	c.release()
	return c.Conn.Close() //nolint:wrapcheck // the caller expects the error of a net.Conn
}
