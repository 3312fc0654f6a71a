package driver_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
)

// fake is a driver that answers with its fields.
type fake struct {
	identity.UnimplementedIdentityServer

	name     string
	probe    error
	services []identity.Capability_Service_Type
}

func (f fake) GetIdentity(context.Context, *identity.GetIdentityRequest,
) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{Name: f.name}, nil
}

func (f fake) Probe(context.Context, *identity.ProbeRequest) (*identity.ProbeResponse, error) {
	return &identity.ProbeResponse{}, f.probe
}

func (f fake) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest,
) (*identity.GetCapabilitiesResponse, error) {
	// A capability that is no service.
	response := &identity.GetCapabilitiesResponse{Capabilities: []*identity.Capability{
		{Type: &identity.Capability_ReclaimSpace_{}},
	}}
	for _, service := range f.services {
		response.Capabilities = append(response.Capabilities, &identity.Capability{
			Type: &identity.Capability_Service_{Service: &identity.Capability_Service{Type: service}},
		})
	}
	return response, nil
}

// serve serves a driver on a socket. The returned function stops it.
func (f fake) serve(t *testing.T, socket string) func() {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	assert.NilError(t, err)
	server := grpc.NewServer()
	identity.RegisterIdentityServer(server, f)
	go func() { _ = server.Serve(listener) }() // ends without an error when it is stopped
	t.Cleanup(server.Stop)
	return server.Stop
}

// connect returns a client of the driver at a socket.
func connect(t *testing.T, address string) *driver.Client {
	t.Helper()
	client, err := driver.New(address)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestDescriptionContainsServicesAndAValidName(t *testing.T) {
	t.Parallel()
	type services = []identity.Capability_Service_Type
	const (
		controller = identity.Capability_Service_CONTROLLER_SERVICE
		node       = identity.Capability_Service_NODE_SERVICE
	)
	longest := strings.Repeat("a", 63)
	for name, want := range map[string]driver.Description{
		longest: {Name: longest, Node: true, Controller: true}, "Example.CSI.openstack.org": {Node: true},
		"": {}, longest + "a": {}, "a_b": {}, "a/b": {}, "a.": {}, "a b": {},
	} {
		d := fake{name: name, services: services{node, 99}} // nobody knows the latter
		if want.Controller {
			d.services = append(d.services, controller)
		}
		socket := filepath.Join(t.TempDir(), "s")
		d.serve(t, socket)
		got, err := connect(t, "unix://"+socket).Describe(t.Context())
		if want.Node {
			want.Name = name
		}
		assert.Check(t, (err == nil) == want.Node, "for the name %q the error is %v", name, err)
		assert.Check(t, is.DeepEqual(want, got), "description of %q", name)
	}
}

func TestProbeReturnsWhyTheDriverIsNotReady(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	fake{probe: status.Error(codes.FailedPrecondition, "no credentials")}.serve(t, socket)
	err := connect(t, socket).Probe(t.Context())
	assert.Check(t, err != nil && err.Error() == "the driver is not ready: no credentials",
		"the probe returns %v", err)
}

func TestClientConnectsAgainAfterTheDriverRestarts(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	client := connect(t, socket)
	if err := client.Probe(t.Context()); err == nil {
		t.Error("the probe succeeds before the driver runs")
	}
	stop := fake{}.serve(t, socket)
	assert.NilError(t, client.WaitReady(t.Context()))
	stop()
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	fake{}.serve(t, socket)
	assert.NilError(t, client.WaitReady(t.Context()))
}

func TestAddressMustBeAnAbsolutePath(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "csi.sock", "tcp://host:1", "unix://csi.sock"} {
		if _, err := driver.New(address); err == nil {
			t.Errorf("the address %q is accepted", address)
		}
	}
}

func TestMessagesOfTheDriverAreLimitedAndPrintable(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"no such volume":             "no such volume",
		"a\x1b[31m\nb\x00\u202ec\td": "a [31m b  c d",
		strings.Repeat("ü", 2000):    strings.Repeat("ü", 510) + "...",
	} {
		socket := filepath.Join(t.TempDir(), "s")
		failure, err := status.New(codes.NotFound, sent).WithDetails(&errdetails.BadRequest{})
		assert.NilError(t, err)
		fake{probe: failure.Err()}.serve(t, socket)
		_, err = connect(t, socket).Identity.Probe(t.Context(), &identity.ProbeRequest{})
		got := status.Convert(err)
		if got.Code() != codes.NotFound || got.Message() != want || len(got.Message()) > 1024 ||
			len(got.Details()) != 1 { // which CIDRs a driver refuses
			t.Errorf("%.20q arrives as %v", sent, err)
		}
	}
}

// Without a limit the client would wait up to two minutes after a driver was missing for a while.
func TestClientConnectsEverySecondWhileTheDriverIsMissing(t *testing.T) {
	t.Parallel()
	const attempts, bound = 10, time.Minute // by default gRPC needs more than two minutes
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err == nil {
		err = listener.SetDeadline(time.Now().Add(bound))
	}
	assert.NilError(t, err)
	defer listener.Close()
	client := connect(t, socket)
	go func() { _ = client.WaitReady(t.Context()) }() // ends with the test
	for i := range attempts {
		connection, err := listener.Accept()
		assert.Assert(t, err == nil, "the client tried to connect %d times in %v", i, bound)
		connection.Close()
	}
}
