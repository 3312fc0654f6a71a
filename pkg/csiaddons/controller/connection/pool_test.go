package connection

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// fixture is a pool, and a sidecar that can end and start again at the same address.
type fixture struct {
	identity.UnimplementedIdentityServer
	*testing.T

	address  string
	registry *prometheus.Registry
	pool     *Pool
	name     types.NamespacedName
	// lost receives the delay after each connection that is lost.
	lost chan time.Duration
	*Reconciler
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		T: t, address: "127.0.0.1:0", registry: prometheus.NewRegistry(),
		name: types.NamespacedName{Namespace: "csi", Name: "a"},
		lost: make(chan time.Duration, 1),
	}
	known := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	f.pool = NewPool(nil, NewMetrics(f.registry), nil)
	f.pool.lost = func(name types.NamespacedName, up time.Duration) { f.lost <- f.delay(name, up) }
	f.Reconciler = &Reconciler{
		Client: fake.NewClientBuilder().WithScheme(known).Build(), Pool: f.pool,
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](
			time.Second, maxRetryDelay),
	}
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
	object := &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name.Namespace, Name: f.name.Name},
	}
	_, err = f.Reconciler.connect(f.Context(), object, target)
	got := f.pool.Of(f.name)
	if err != nil || got == nil {
		f.Fatalf("the sidecar is not connected: %v", err)
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

// A sidecar may limit the age of connections, or end. The controller connects again when it knows,
// but one that answers and closes the connection each time does not occupy it.
func TestConnectionThatTheSidecarClosesIsLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for attempt := range 3 {
		go f.connect().GracefulStop()
		select {
		case delay := <-f.lost:
			if delay != time.Second<<attempt {
				t.Errorf("the controller connects again after %v", delay)
			}
		case <-time.After(time.Minute):
			t.Fatal("the connection is not lost")
		}
		f.check(false)
	}
	if delay := f.delay(f.name, stableInterval); delay != 0 || f.retries.NumRequeues(f.name) != 0 {
		t.Errorf("after a stable connection, the controller connects again after %v", delay)
	}
	server := f.connect()
	f.pool.Close(f.name)
	server.GracefulStop() // waits for the end of the connection
	f.check(false)        // the pool has closed it, so it is not lost
}

// BenchmarkPlan measures what the plan of a job asks on 5,000 nodes with two drivers.
func BenchmarkPlan(b *testing.B) {
	const nodes = 5_000
	known := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(known); err != nil {
		b.Fatal(err)
	}
	p := NewPool(nil, NewMetrics(nil), fake.NewClientBuilder().WithScheme(known).Build())
	add := func(driver, node string, capabilities ...string) {
		name := types.NamespacedName{Namespace: "csi", Name: driver + "-" + node}
		target := Target{Driver: driver, Node: node, Pod: name}
		p.up(&link{Target: target}, &Sidecar{Target: target, Capabilities: capabilities})
	}
	for i := range nodes {
		add("cinder", fmt.Sprint(i), ReclaimOnline, NodeService)
		add("manila", fmt.Sprint(i), NodeService)
	}
	add("cinder", "leader", ControllerService, ReclaimOffline)
	b.ReportAllocs()
	for b.Loop() {
		first := p.OnNode("cinder", "1234", ReclaimOnline)
		_, err := p.Leader(b.Context(), "cinder")
		if !p.Any("cinder") || first == nil || err != nil ||
			!p.Any("cinder", ControllerService, ReclaimOffline) {
			b.Fatal(first, err)
		}
	}
}
