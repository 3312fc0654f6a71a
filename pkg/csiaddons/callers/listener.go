package callers

import (
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var errTooMuch = errors.New("the client has sent too many bytes before it was known")

// Connections limits connections. The client of each is a stranger until Connection.Keep.
type Connections struct {
	// Strangers limits the connections of all strangers, and OfNetwork those of one network.
	Strangers, OfNetwork int
	// Known limits the connections of clients that are known.
	Known int
	// Time and Bytes limit how long a stranger stays connected, and what it sends.
	Time  time.Duration
	Bytes int64
}

// Listener accepts a limited number of connections at the same time. For the connection of another
// stranger, it closes the oldest one of the same network, or of the network that has most. It is
// safe for concurrent use.
type Listener struct {
	net.Listener

	limits Connections

	mu        sync.Mutex
	strangers []*Connection // the oldest first
	known     int
}

// Limit returns a listener with limits.
func Limit(listener net.Listener, limits Connections) *Listener {
	return &Listener{Listener: listener, limits: limits}
}

// Accept waits for a connection, which is a *Connection.
func (l *Listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err // the server compares it with net.ErrClosed
	}
	added := &Connection{
		Conn: accepted, listener: l, network: Network(accepted.RemoteAddr().String()),
	}
	added.left.Store(l.limits.Bytes)
	if replaced := l.add(added); replaced != nil {
		_ = replaced.Close()
	}
	return added, nil
}

// add adds the connection of a stranger. It returns the connection to close for it, or nil.
func (l *Listener) add(added *Connection) *Connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	replaced := l.victim(added.network)
	l.forget(replaced)
	l.strangers = append(l.strangers, added)
	added.timer = time.AfterFunc(l.limits.Time, added.expire)
	return replaced
}

// victim returns the connection to close before a stranger of a network is added, or nil.
func (l *Listener) victim(network string) *Connection {
	counts, most := map[string]int{}, ""
	for _, c := range l.strangers {
		counts[c.network]++
	}
	for _, c := range l.strangers { // the first of several with the same number is the oldest
		if counts[c.network] > counts[most] {
			most = c.network
		}
	}
	switch {
	case counts[network] >= l.limits.OfNetwork:
		most = network
	case len(l.strangers) < l.limits.Strangers:
		return nil
	}
	found := slices.IndexFunc(l.strangers, func(c *Connection) bool { return c.network == most })
	return l.strangers[found]
}

// Connection is a connection that a Listener has accepted.
type Connection struct {
	net.Conn

	listener *Listener
	network  string
	timer    *time.Timer // closes the connection of a stranger
	left     atomic.Int64
	kept     atomic.Bool
	closed   bool // the mutex of the listener protects it
}

// Keep says that the client is known, so that the limits for strangers do not apply any more. It
// has no effect while too many clients are known.
func (c *Connection) Keep() {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.closed || c.kept.Load() || l.known >= l.limits.Known {
		return
	}
	c.kept.Store(true)
	c.timer.Stop()
	l.known++
	l.forget(c)
}

// Read reads from a client that is known, or a limited number of bytes from a stranger.
func (c *Connection) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if !c.kept.Load() && c.left.Add(-int64(n)) < 0 {
		return 0, errTooMuch
	}
	return n, err // the caller expects the error of a net.Conn
}

// Close closes the connection.
func (c *Connection) Close() error {
	c.listener.drop(c, true)
	return c.Conn.Close() // the caller expects the error of a net.Conn
}

// expire closes the connection of a stranger.
func (c *Connection) expire() {
	if c.listener.drop(c, false) {
		_ = c.Conn.Close()
	}
}

// drop stops counting a connection, of a client that is known only if known is set. It returns
// whether the connection counted.
func (l *Listener) drop(c *Connection, known bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := c.kept.Load()
	if c.closed || kept && !known {
		return false
	}
	c.closed = true
	c.timer.Stop()
	if kept {
		l.known--
	} else {
		l.forget(c)
	}
	return true
}

// forget removes a connection from those of strangers.
func (l *Listener) forget(c *Connection) {
	l.strangers = slices.DeleteFunc(l.strangers, func(s *Connection) bool { return s == c })
}
