package connection

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
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
	assert.NilError(t, v1alpha1.AddToScheme(known))
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
	assert.NilError(f, err)
	f.address = listener.Addr().String()
	server := grpc.NewServer()
	identity.RegisterIdentityServer(server, f)
	go func() { _ = server.Serve(listener) }() // ends with the test
	f.Cleanup(server.Stop)
	target := Target{Driver: "cinder", Address: f.address, Security: Plaintext}
	_, err = f.Reconciler.connect(f.Context(), object(f.name), target)
	got := f.pool.Of(f.name)
	assert.Assert(f, err == nil && got != nil, "the sidecar is not connected: %v", err)
	assert.Check(f, is.DeepEqual([]string{ReclaimOnline, NodeService}, got.Capabilities),
		"capabilities")
	f.check(true)
	return server
}

func object(name types.NamespacedName) *v1alpha1.CSIAddonsNode {
	return &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
	}
}

// check compares the state of the connection.
func (f *fixture) check(up bool) {
	f.Helper()
	families, err := f.registry.Gather()
	assert.NilError(f, err)
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
			assert.Check(t, delay == time.Second<<attempt, "the controller connects again after %v", delay)
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

func TestStatusSaysWhetherTheSidecarAnswers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	recorder := events.NewFakeRecorder(3)
	f.Client, f.Events = newReconciler(t, interceptor.Funcs{}, object(f.name)).Client, recorder
	expect := func(state v1alpha1.CSIAddonsNodeState, reason, message string) *v1alpha1.CSIAddonsNode {
		t.Helper()
		node := object(f.name)
		err := f.Client.Get(t.Context(), f.name, node)
		got := node.Status
		if err != nil || got.State != state || got.Reason != reason ||
			!strings.HasSuffix(got.Message, message) {
			t.Errorf("got %+v, %v, want %s, %s, ...%s", got, err, state, reason, message)
		}
		return node
	}
	f.connect().Stop()
	<-f.lost
	node := expect(v1alpha1.CSIAddonsNodeConnected, "Connected", "The sidecar answers")
	for security, message := range map[Security]string{
		Plaintext:  "connection refused\"",
		Unverified: ". If the sidecar serves without TLS, use the flag --plaintext-drivers",
	} {
		target := Target{Driver: "cinder", Address: f.address, Security: security}
		result, err := f.Reconciler.connect(t.Context(), node, target)
		assert.Check(t, err == nil && result.RequeueAfter != 0, "got %+v, %v", result, err)
		node = expect(v1alpha1.CSIAddonsNodeRetrying, "Unreachable", message)
	}
	for _, want := range []string{"Normal Connected The ", "Warning Unreachable Unavailable: "} {
		if got := <-recorder.Events; !strings.HasPrefix(got, want) {
			t.Errorf("the event is %q, want %q", got, want)
		}
	}
	assert.Check(t, is.Len(recorder.Events, 0), "an event repeats")
}

// late is a balancer of gRPC that allows calls some time before it reports that the connection is
// ready.
type late struct{ balancer.Builder }

// Name implements balancer.Builder.
func (late) Name() string { return "late" }

// Build implements balancer.Builder.
func (l late) Build(c balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	return l.Builder.Build(lateState{c}, o)
}

type lateState struct{ balancer.ClientConn }

// UpdateState implements balancer.ClientConn.
func (l lateState) UpdateState(s balancer.State) {
	if s.ConnectivityState == connectivity.Ready {
		l.ClientConn.UpdateState(balancer.State{
			ConnectivityState: connectivity.Connecting, Picker: s.Picker,
		})
		<-time.After(100 * time.Millisecond)
	}
	l.ClientConn.UpdateState(s)
}

// It does not run beside other tests, which read what it registers.
func TestConnectionWhoseStateIsLateIsKept(t *testing.T) { //nolint:paralleltest // see above
	balancer.Register(late{balancer.Get("pick_first")})
	f := newFixture(t)
	f.connect()
	target := Target{Driver: "cinder", Address: f.address, Security: Plaintext}
	connection, err := grpc.NewClient("passthrough:///"+f.address, append(options(target, nil),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"late": {}}]}`))...)
	assert.NilError(t, err)
	f.pool.links[f.name] = &link{Target: target, connection: connection}
	_, err = f.pool.Connect(t.Context(), f.name, target)
	assert.Check(t, err)
}

// add adds a connected sidecar.
func add(p *Pool, driver, node, pod string, capabilities ...string) *link {
	target := Target{
		Driver: driver, Node: node, Pod: types.NamespacedName{Namespace: "csi", Name: pod},
	}
	l := &link{Target: target}
	p.up(l, &Sidecar{Target: target, Capabilities: capabilities})
	return l
}

func newPool() *Pool {
	known := runtime.NewScheme()
	utilruntime.Must(coordinationv1.AddToScheme(known))
	return NewPool(nil, NewMetrics(nil), fake.NewClientBuilder().WithScheme(known).Build())
}

func TestSidecarsAreFoundByDriverNodeAndCapabilities(t *testing.T) {
	t.Parallel()
	p := newPool()
	add(p, "cinder", "n", "b", NodeService, ReclaimOnline)
	first := add(p, "cinder", "n", "a", NodeService, ReclaimOnline)
	add(p, "cinder", "n", "c", ControllerService)
	add(p, "manila", "m", "d", NodeService)
	podOnNode := func(node string, capabilities ...string) string {
		if found := p.OnNode("cinder", node, capabilities...); found != nil {
			return found.Pod.Name
		}
		return ""
	}
	got := []string{
		podOnNode("n", NodeService, ReclaimOnline), podOnNode("n", ControllerService),
		podOnNode("n", NetworkFence), podOnNode("m"),
	}
	assert.Check(t, is.DeepEqual([]string{"a", "c", "", ""}, got), "pods")
	assert.Check(t, p.Any("cinder", ReclaimOnline) && !p.Any("manila", ReclaimOnline) && !p.Any("x"),
		"Any does not follow the capabilities")
	p.down(first)
	assert.Check(t, is.Equal(podOnNode("n", NodeService), "b"),
		"after the connection to the first pod is down, the pod")
}

func TestLeaderIsTheHolderOfTheLease(t *testing.T) {
	t.Parallel()
	p := newPool()
	add(p, "cinder", "n", "a", ControllerService, ReclaimOffline)
	add(p, "cinder", "n", "b", ControllerService)
	add(p, "cinder", "n", "c", NodeService)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: wire.LeaseName("cinder")},
	}
	kube := p.leases.(client.Client)
	for _, one := range []struct {
		holder     string // no Lease if empty
		capability string
		want       string
	}{
		{"", ControllerService, ""},
		{"b", ControllerService, "b"},
		{"a", ReclaimOffline, "a"},
		{"b", ReclaimOffline, ""},
		{"c", NodeService, ""}, // nodes may not write the Lease, but a holder could name one
	} {
		_ = kube.Delete(t.Context(), lease) // the first one does not exist
		if one.holder != "" {
			lease.ResourceVersion = ""
			lease.Spec.HolderIdentity = new(wire.LeaseHolder(one.holder))
			assert.NilError(t, kube.Create(t.Context(), lease))
		}
		found, hasLease, err := p.Leader(t.Context(), "cinder", one.capability)
		got := ""
		if found != nil {
			got = found.Pod.Name
		}
		// No Lease is read if no sidecar can be the leader.
		exists := one.holder != "" && one.capability != NodeService
		assert.Check(t, err == nil && got == one.want && hasLease == exists,
			"%+v: the leader is %q, with a Lease: %v, %v", one, got, hasLease, err)
	}
}

// BenchmarkPlan measures what the plan of a job asks on 5,000 nodes with two drivers.
func BenchmarkPlan(b *testing.B) {
	const nodes = 5_000
	p := newPool()
	for i := range nodes {
		add(p, "cinder", fmt.Sprint(i), fmt.Sprint("cinder-", i), ReclaimOnline, NodeService)
		add(p, "manila", fmt.Sprint(i), fmt.Sprint("manila-", i), NodeService)
	}
	add(p, "cinder", "leader", "leader", ControllerService, ReclaimOffline)
	b.ReportAllocs()
	for b.Loop() {
		first := p.OnNode("cinder", "1234", ReclaimOnline)
		_, _, err := p.Leader(b.Context(), "cinder")
		if !p.Any("cinder") || first == nil || err != nil ||
			!p.Any("cinder", ControllerService, ReclaimOffline) {
			b.Fatal(first, err)
		}
	}
}
