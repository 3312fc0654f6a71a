package simulator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/openstack/port"
)

// frontend is one listener with the services behind it, and the faults about connections.
type frontend struct {
	simulator *Simulator
	services  []Service
	server    *http.Server

	switching   sync.Mutex // serialises open and shut
	address     *net.TCPAddr
	listener    net.Listener // nil while unreachable
	reservation port.Reservation

	mu          sync.Mutex // makes "is there a fault" and "note the connection" one step
	connections map[*connection]struct{}
}

type connection struct {
	*net.TCPConn
	number   int
	frontend *frontend
	silent   atomic.Bool
}

// Read drops what arrives while the connection is silent.
func (c *connection) Read(p []byte) (int, error) {
	for {
		n, err := c.TCPConn.Read(p)
		if err != nil || !c.silent.Load() {
			return n, err
		}
	}
}

// Write drops what a silent connection would send.
func (c *connection) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.TCPConn.Write(p)
}

// Close removes the connection from the list.
func (c *connection) Close() error {
	c.frontend.mu.Lock()
	delete(c.frontend.connections, c)
	c.frontend.mu.Unlock()
	return c.TCPConn.Close()
}

func (c *connection) abort() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

type connectionKey struct{}

func newFrontend(s *Simulator, services []Service) *frontend {
	return &frontend{
		simulator: s, services: services, connections: map[*connection]struct{}{},
		server: &http.Server{
			Handler:           http.HandlerFunc(s.serve),
			ReadHeaderTimeout: time.Minute,
			ErrorLog:          log.New(io.Discard, "", 0), // tests provoke failed handshakes
			ConnContext:       withConnection,
		},
	}
}

// withConnection lets a handler find the TCP connection it serves.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, conn)
}

// adjust applies a change of faults. Dropped connections make clients notice it.
func (f *frontend) adjust(drop bool) error {
	f.switching.Lock()
	defer f.switching.Unlock()
	_, hidden := f.simulator.faults.hitConnection(Unreachable, f.services)
	var err error
	switch {
	case hidden && f.listener != nil:
		err = f.shut()
	case !hidden && f.listener == nil:
		if err = f.open(); err == nil {
			f.serve()
		}
	}
	if drop {
		f.drop()
	}
	return err
}

// open listens on the same port each time, beside a reservation that exists until close.
// Connections wait until serve is called. After the start, callers of open, serve and shut hold the
// switching lock.
func (f *frontend) open() (err error) {
	host := f.simulator.config.Host
	if f.reservation.Port() == 0 {
		if f.reservation, err = port.Reserve(net.JoinHostPort(host, "0")); err != nil {
			return fmt.Errorf("listening for %s: %w", f.services, err)
		}
	}
	address := net.JoinHostPort(host, strconv.Itoa(f.reservation.Port()))
	// After a listener is closed, its port may stay in use for a moment.
	err = wait.PollUntilContextTimeout(f.simulator.closed, time.Millisecond, 10*time.Second, true,
		func(ctx context.Context) (bool, error) {
			f.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp4", address)
			if errors.Is(err, syscall.EADDRINUSE) {
				return false, nil
			}
			return err == nil, err
		})
	if err != nil {
		return fmt.Errorf("listening for %s: %w", f.services, err)
	}
	if f.address == nil {
		f.address = f.listener.Addr().(*net.TCPAddr)
	}
	return nil
}

// serve serves until the listener is closed.
func (f *frontend) serve() {
	var served net.Listener = &gate{Listener: f.listener, frontend: f}
	if f.simulator.keyring != nil {
		served = tls.NewListener(served, f.tlsConfig())
	}
	go func() { _ = f.server.Serve(served) }() // ends when the listener is closed, by shut or by close
}

// shut stops listening but keeps the port.
func (f *frontend) shut() error {
	if err := f.listener.Close(); err != nil {
		return fmt.Errorf("closing the listener for %s: %w", f.services, err)
	}
	f.listener = nil
	return nil
}

func (f *frontend) drop() {
	for _, conn := range f.opened() {
		conn.abort()
	}
}

func (f *frontend) opened() []*connection {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.connections))
}

func (f *frontend) close() error {
	f.switching.Lock()
	defer f.switching.Unlock()
	return errors.Join(f.reservation.Release(), f.server.Close())
}

// tlsConfig presents the certificate of the current faults. With session tickets clients would not
// verify it again.
func (f *frontend) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		NextProtos:             []string{"h2", "http/1.1"}, // as many load balancers
		SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			fault, _ := f.simulator.faults.hitConnection(BadCertificate, f.services)
			return f.simulator.keyring.certificates[fault.Certificate], nil
		},
	}
}

// gate counts connections and resets those that a fault is for.
type gate struct {
	net.Listener
	frontend *frontend
}

// Accept returns the next connection that is not reset at once.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if accepted := g.frontend.admit(conn.(*net.TCPConn)); accepted != nil {
			return accepted, nil
		}
	}
}

// admit notes a new connection, or resets it and returns nil.
func (f *frontend) admit(conn *net.TCPConn) *connection {
	accepted := &connection{TCPConn: conn, number: f.simulator.journal.connect(), frontend: f}
	f.mu.Lock()
	_, refused := f.simulator.faults.hitConnection(ResetConnect, f.services)
	if !refused {
		f.connections[accepted] = struct{}{}
	}
	f.mu.Unlock()
	if refused {
		accepted.abort()
		return nil
	}
	return accepted
}
