package adapter_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/adapter"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
)

// load returns the settings of a command line.
func load(t *testing.T, args ...string) (*adapter.Settings, error) {
	t.Helper()
	var flags adapter.Flags
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.AddTo(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags.Load()
}

// start runs the adapter until the test ends, and returns a client that is connected to it.
func start(t *testing.T, args ...string) *driver.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	settings, err := load(t, append(args, "--csi-addons-address="+socket)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- adapter.Run(ctx, settings) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	client, err := driver.New(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if err := client.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return client
}

func TestIdentityContainsTheServicesOfThePod(t *testing.T) {
	t.Parallel()
	const cinder, manila = "cinder.csi.openstack.org", "manila.csi.openstack.org"
	for _, test := range []struct {
		args []string
		want driver.Description
	}{
		{
			[]string{"--driver=cinder", "--service=controller"},
			driver.Description{Name: cinder, Controller: true},
		},
		{[]string{"--driver=cinder", "--service=node"}, driver.Description{Name: cinder, Node: true}},
		{manilaController(), driver.Description{Name: manila, Controller: true}},
		{manilaNode(), driver.Description{Name: manila, Node: true}},
	} {
		client := start(t, test.args...)
		got, err := client.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("description (-want +got):\n%s", diff)
		}
		answer, err := client.Identity.GetIdentity(t.Context(), &identity.GetIdentityRequest{})
		if err != nil || answer.GetVendorVersion() == "" {
			t.Errorf("the identity is %v, %v", answer, err)
		}
	}
}

func TestOperationsOfCinderDependOnTheService(t *testing.T) {
	t.Parallel()
	const volumeID = "5d0f8a52-0b5c-4a6e-9d7b-3f1c2e4a6b80"
	online := &reclaimspace.NodeReclaimSpaceRequest{VolumeId: volumeID, VolumePath: "/outside"}
	offline := &reclaimspace.ControllerReclaimSpaceRequest{VolumeId: volumeID}
	for service, want := range map[string][2]codes.Code{
		"node":       {codes.InvalidArgument, codes.Unimplemented},
		"controller": {codes.Unimplemented, codes.Unimplemented},
	} {
		client := start(t, "--driver=cinder", "--service="+service)
		_, err := client.NodeReclaimSpace.NodeReclaimSpace(t.Context(), online)
		if status.Code(err) != want[0] {
			t.Errorf("service %s: the error on the node is %v", service, err)
		}
		_, err = client.ControllerReclaimSpace.ControllerReclaimSpace(t.Context(), offline)
		if status.Code(err) != want[1] {
			t.Errorf("service %s: the error in the controller is %v", service, err)
		}
	}
}

func manilaController() []string {
	return []string{
		"--driver=manila", "--service=controller", "--cluster-id=blue", "--clouds-file=/missing/file",
	}
}

func manilaNode() []string {
	return []string{
		"--driver=manila", "--service=node", "--node-name=node-1", "--node-address=10.0.0.5",
	}
}

func TestOperationsOfManilaDependOnTheService(t *testing.T) {
	t.Parallel()
	node, controller := start(t, manilaNode()...), start(t, manilaController()...)
	answer, err := node.Fence.GetFenceClients(t.Context(), &fence.GetFenceClientsRequest{})
	if err != nil || answer.GetClients()[0].GetAddresses()[0].GetCidr() != "10.0.0.5/32" {
		t.Errorf("the clients of the node are %v, %v", answer, err)
	}
	request := &fence.FenceClusterNetworkRequest{Cidrs: []*fence.CIDR{{Cidr: "10.0.0.5/32"}}}
	if _, err := node.Fence.FenceClusterNetwork(t.Context(), request); status.Code(err) !=
		codes.Unimplemented {
		t.Errorf("the error of the node is %v", err)
	}
	_, err = controller.Fence.FenceClusterNetwork(t.Context(), request)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "/missing/file") {
		t.Errorf("the error of a controller without credentials is %v", err)
	}
}

func TestSocketOfAnEarlierProcessIsReplaced(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // as if the process was killed
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	settings, err := load(t, "--driver=cinder", "--service=node", "--csi-addons-address="+socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- adapter.Run(ctx, settings) }()
	client, err := driver.New(socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.WaitReady(ctx); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

func TestErrorOfSettingsNamesEveryProblem(t *testing.T) {
	t.Parallel()
	_, err := load(t, "--driver=ceph", "--csi-addons-address=s", "--staging-path=x")
	expectNames(t, err, "--driver", "--service", "--csi-addons-address", "--staging-path")
	_, err = load(t, "--driver=manila", "--service=controller", "--max-access-rules=0")
	expectNames(t, err, "--cluster-id", "--max-access-rules")
	_, err = load(t, "--driver=manila", "--service=node", "--node-address=here")
	expectNames(t, err, "--node-name", "--node-address")
}

// expectNames expects that an error contains the names of flags.
func expectNames(t *testing.T, err error, names ...string) {
	t.Helper()
	for _, name := range names {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not contain %s: %v", name, err)
		}
	}
}
