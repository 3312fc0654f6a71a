package connection

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
)

// fixture is a pool, and a sidecar that can end and start again at the same address.
type fixture struct {
	identity.UnimplementedIdentityServer
	*testing.T

	address  string
	registry *prometheus.Registry
	pool     *Pool
	name     types.NamespacedName
	lost     chan types.NamespacedName
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		T: t, address: "127.0.0.1:0", registry: prometheus.NewRegistry(),
		name: types.NamespacedName{Namespace: "csi", Name: "a"},
		lost: make(chan types.NamespacedName, 1),
	}
	m, err := NewMetrics(f.registry)
	if err != nil {
		t.Fatal(err)
	}
	f.pool = NewPool(nil, m, nil, func(name types.NamespacedName) { f.lost <- name })
	t.Cleanup(f.pool.CloseAll)
	return f
}

func (*fixture) GetIdentity(context.Context, *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{Name: "cinder"}, nil
}

// GetCapabilities also returns what the specification does not contain.
func (*fixture) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	service := func(number identity.Capability_Service_Type) *identity.Capability {
		return &identity.Capability{Type: &identity.Capability_Service_{
			Service: &identity.Capability_Service{Type: number},
		}}
	}
	return &identity.GetCapabilitiesResponse{Capabilities: []*identity.Capability{
		new(identity.Capability), service(99), service(identity.Capability_Service_NODE_SERVICE),
		{Type: &identity.Capability_ReclaimSpace_{ReclaimSpace: &identity.Capability_ReclaimSpace{
			Type: identity.Capability_ReclaimSpace_ONLINE,
		}}},
		service(identity.Capability_Service_NODE_SERVICE),
	}}, nil
}

// connect starts the sidecar, and connects the pool to it.
func (f *fixture) connect() *grpc.Server {
	f.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(f.Context(), "tcp", f.address)
	if err != nil {
		f.Fatal(err)
	}
	f.address = listener.Addr().String()
	server := grpc.NewServer()
	identity.RegisterIdentityServer(server, f)
	go func() { _ = server.Serve(listener) }() // ends with the test
	f.Cleanup(server.Stop)
	target := Target{Driver: "cinder", Address: f.address, Security: Plaintext}
	got, err := f.pool.Connect(f.Context(), f.name, target)
	if err != nil {
		f.Fatal(err)
	}
	if diff := cmp.Diff([]string{ReclaimOnline, NodeService}, got.Capabilities); diff != "" {
		f.Errorf("capabilities (-want +got):\n%s", diff)
	}
	f.check(true)
	return server
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
		go f.connect().GracefulStop()
		select {
		case lost := <-f.lost:
			if lost != f.name {
				t.Errorf("%s is lost", lost)
			}
		case <-time.After(time.Minute):
			t.Fatal("the connection is not lost")
		}
		f.check(false)
	}
	server := f.connect()
	f.pool.Close(f.name)
	server.GracefulStop() // waits for the end of the connection
	f.check(false)        // the pool has closed it, so it is not lost
}
