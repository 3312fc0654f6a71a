package driver_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/test/fakedriver"
)

// capabilities returns services, and a capability that is no service.
func capabilities(services ...identity.Capability_Service_Type) *identity.GetCapabilitiesResponse {
	response := &identity.GetCapabilitiesResponse{Capabilities: []*identity.Capability{
		{Type: &identity.Capability_ReclaimSpace_{}},
	}}
	for _, service := range services {
		response.Capabilities = append(response.Capabilities, &identity.Capability{
			Type: &identity.Capability_Service_{Service: &identity.Capability_Service{Type: service}},
		})
	}
	return response
}

// refusing returns the socket of a driver that refuses all requests.
func refusing(t *testing.T, err error) string {
	t.Helper()
	return fakedriver.Serve(t, func(context.Context, string) (proto.Message, error) {
		return nil, err
	}).Socket
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
	const (
		controller = identity.Capability_Service_CONTROLLER_SERVICE
		node       = identity.Capability_Service_NODE_SERVICE
	)
	longest := strings.Repeat("a", 63)
	for name, want := range map[string]driver.Description{
		longest: {Name: longest, Node: true, Controller: true}, "Example.CSI.openstack.org": {Node: true},
		"": {}, longest + "a": {}, "a_b": {}, "a/b": {}, "a.": {}, "a b": {},
	} {
		services := []identity.Capability_Service_Type{node, 99} // nobody knows the latter
		if want.Controller {
			services = append(services, controller)
		}
		d := fakedriver.Serve(t, func(_ context.Context, method string) (proto.Message, error) {
			if method == "GetIdentity" {
				return &identity.GetIdentityResponse{Name: name}, nil
			}
			return capabilities(services...), nil
		})
		got, err := connect(t, "unix://"+d.Socket).Describe(t.Context())
		if want.Node {
			want.Name = name
		}
		assert.Check(t, (err == nil) == want.Node, "for the name %q the error is %v", name, err)
		assert.Check(t, is.DeepEqual(want, got), "description of %q", name)
	}
}

func TestProbeReturnsWhyTheDriverIsNotReady(t *testing.T) {
	t.Parallel()
	socket := refusing(t, status.Error(codes.FailedPrecondition, "no credentials"))
	err := connect(t, socket).Probe(t.Context())
	assert.Check(t, is.Error(err, "the driver is not ready: no credentials"))
}

func TestClientConnectsAgainAfterTheDriverRestarts(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	client := connect(t, socket)
	assert.Check(t, client.Probe(t.Context()) != nil, "the probe succeeds before the driver runs")
	for range 2 {
		d := fakedriver.Serve(t, func(context.Context, string) (proto.Message, error) { return nil, nil })
		assert.NilError(t, os.Symlink(d.Socket, socket))
		assert.NilError(t, client.WaitReady(t.Context()))
		d.Stop()
		assert.NilError(t, os.Remove(socket))
	}
}

func TestAddressMustBeAnAbsolutePath(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "csi.sock", "tcp://host:1", "unix://csi.sock"} {
		_, err := driver.New(address)
		assert.Check(t, err != nil, "the address %q is accepted", address)
	}
}

func TestMessagesOfTheDriverAreLimitedAndPrintable(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		"no such volume":             "no such volume",
		"a\x1b[31m\nb\x00\u202ec\td": "a [31m b  c d",
		strings.Repeat("ü", 2000):    strings.Repeat("ü", 510) + "...",
	} {
		failure, err := status.New(codes.NotFound, sent).WithDetails(&errdetails.BadRequest{})
		assert.NilError(t, err)
		client := connect(t, refusing(t, failure.Err())).Identity
		_, err = client.Probe(t.Context(), &identity.ProbeRequest{})
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

const hidden = "openstack-cloud"

// claimed returns a PersistentVolume whose Secret is csi/openstack-cloud.
func claimed() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "a", VolumeHandle: "1",
				NodeStageSecretRef: &corev1.SecretReference{Namespace: "csi", Name: hidden},
			},
		}},
	}
}

// Users read errors in objects, but may not see the names of Secrets in other namespaces.
func TestErrorsDoNotNameSecrets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		code codes.Code
		want string
	}{
		"missing": {
			apierrors.NewNotFound(corev1.Resource("secrets"), hidden), codes.NotFound, "not found",
		},
		"forbidden": {
			apierrors.NewForbidden(corev1.Resource("secrets"), hidden, errors.New("RBAC: "+hidden)),
			codes.FailedPrecondition, "forbidden",
		},
		"no answer": {
			errors.New("Get https://10.0.0.1/api/v1/namespaces/csi/secrets/" + hidden + ": timeout"),
			codes.Unavailable, "the API server did not answer",
		},
	} {
		kube := kubefake.NewClientset(claimed())
		kube.PrependReactor("get", "secrets",
			func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
		_, err := driver.Reader{Kube: kube, Driver: "a"}.Volume(t.Context(), "data")
		assert.Check(t, status.Code(err) == test.code && strings.Contains(err.Error(), test.want) &&
			!strings.Contains(err.Error(), hidden), "%s: the error is %v", name, err)
	}
}

// Kubernetes stages a volume of its former driver where it stages one of the CSI driver.
func TestVolumesOfTheFormerDriverBelongToCinder(t *testing.T) {
	t.Parallel()
	former := claimed()
	former.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "1", FSType: "xfs"},
	}
	const name = "cinder.csi.openstack.org"
	got, err := driver.Reader{Kube: kubefake.NewClientset(former), Driver: name}.
		Volume(t.Context(), "data")
	assert.NilError(t, err)
	const path = "/s/" + name +
		"/6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b/globalmount"
	assert.Check(t, is.DeepEqual([]string{"1", "xfs", path},
		[]string{got.ID(), got.Capability().GetMount().GetFsType(), got.StagingPath("/s")}))
}
