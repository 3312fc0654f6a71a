package connection

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
)

const soon = 30 * time.Second

// single is the listener of a server for one connection.
type single struct {
	net.Listener

	accepted chan net.Conn
	closed   chan struct{}
	close    func()
}

func (s *single) Accept() (net.Conn, error) {
	select {
	case connection := <-s.accepted:
		return connection, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *single) Close() error {
	s.close()
	return nil
}

// fixture is a pool, and a sidecar that can close its connections.
type fixture struct {
	identity.UnimplementedIdentityServer
	*testing.T

	listener net.Listener
	registry *prometheus.Registry
	pool     *Pool
	name     types.NamespacedName
	lost     chan types.NamespacedName
	// servers delivers the server of each connection that has been described.
	servers chan *grpc.Server

	mu   sync.Mutex
	last *grpc.Server
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{
		T: t, listener: listener, registry: prometheus.NewRegistry(),
		name: types.NamespacedName{Namespace: "csi", Name: "a"},
		lost: make(chan types.NamespacedName, 1), servers: make(chan *grpc.Server, 1),
	}
	m, err := NewMetrics(f.registry)
	if err != nil {
		t.Fatal(err)
	}
	f.pool = NewPool(nil, m, nil, func(name types.NamespacedName) { f.lost <- name })
	go f.serve()
	t.Cleanup(func() {
		_ = listener.Close()
		f.pool.CloseAll()
	})
	return f
}

// serve serves each connection by a server of its own, so that it can end gracefully.
func (f *fixture) serve() {
	for {
		connection, err := f.listener.Accept()
		if err != nil {
			return
		}
		one := &single{
			Listener: f.listener, accepted: make(chan net.Conn, 1), closed: make(chan struct{}),
		}
		one.close = sync.OnceFunc(func() { close(one.closed) })
		one.accepted <- connection
		server := grpc.NewServer()
		identity.RegisterIdentityServer(server, f)
		f.mu.Lock()
		f.last = server
		f.mu.Unlock()
		go func() { _ = server.Serve(one) }() // ends with the test
	}
}

func (*fixture) GetIdentity(context.Context, *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{Name: "cinder"}, nil
}

func (f *fixture) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers <- f.last
	return &identity.GetCapabilitiesResponse{}, nil
}

// connect connects the pool to the sidecar, and returns the server of the connection.
func (f *fixture) connect() *grpc.Server {
	f.Helper()
	target := Target{
		Driver: "cinder", Address: f.listener.Addr().String(), Security: Plaintext,
	}
	if _, err := f.pool.Connect(f.Context(), f.name, target); err != nil {
		f.Fatal(err)
	}
	return receive(f.T, f.servers)
}

// receive returns the next message of a channel.
func receive[E any](t *testing.T, from <-chan E) E {
	t.Helper()
	var got E
	select {
	case got = <-from:
	case <-time.After(soon):
		t.Fatalf("nothing happens for %v", soon)
	}
	return got
}

// check compares the state of the connection.
func (f *fixture) check(up bool) {
	f.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.Fatal(err)
	}
	connected := -1.0
	for _, family := range families {
		if family.GetName() == "csi_addons_sidecars_connected" {
			connected = family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if got := f.pool.Of(f.name) != nil; got != up || (connected == 1) != up || len(f.lost) > 0 {
		f.Errorf("the connection is up: %t, want %t; the metric is %v; the pool has lost %d", got, up,
			connected, len(f.lost))
	}
}

// A sidecar may limit the age of connections, or end. The controller connects again when it knows.
func TestConnectionThatTheSidecarClosesIsLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		server := f.connect()
		f.check(true)
		go server.GracefulStop()
		if lost := receive(t, f.lost); lost != f.name {
			t.Errorf("%s is lost", lost)
		}
		f.check(false)
	}
}

func TestClosedConnectionIsNotLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	server := f.connect()
	f.pool.Close(f.name)
	server.GracefulStop() // waits for the end of the connection
	f.check(false)
}
