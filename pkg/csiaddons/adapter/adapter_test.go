package adapter_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack"
	openstackconfig "github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/adapter"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
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
	const cinder, manila = "cinder.csi.openstack.org", manilaDriver
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
		"--driver=manila", "--service=node", "--node-name=node-1", "--node-address=10.0.0.5,fd00::5",
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
	_, err = controller.Fence.UnfenceClusterNetwork(t.Context(),
		&fence.UnfenceClusterNetworkRequest{Cidrs: request.GetCidrs()})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "/missing/file") {
		t.Errorf("the error of a controller without credentials is %v", err)
	}
}

// inCloud runs the controller service of Manila with a share of a PersistentVolume in a simulated
// cloud, and a plugin that reports a version.
func inCloud(t *testing.T, pluginVersion string) (
	client *driver.Client, cloud *simulator.Simulator, share string,
) {
	t.Helper()
	cloud, err := simulator.New(simulator.Config{
		TLS: true, ShareTypes: []simulator.ShareType{{Name: "default"}},
	})
	if err == nil {
		err = cloud.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cloud.Close() })
	dir := t.TempDir()
	file, ca := filepath.Join(dir, "clouds.yaml"), filepath.Join(dir, "ca.crt")
	err = errors.Join(os.WriteFile(file, cloud.CloudsYAML(simulator.Clouds{}), 0o600),
		os.WriteFile(ca, cloud.CA(), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	share = newShare(t, file, ca)
	kubeconfig := serveVolumes(t, volumeOf("a", manilaDriver, `{"shareID": "`+share+`"}`))
	return start(t, "--driver=manila", "--service=controller", "--cluster-id=blue",
		"--clouds-file="+file, "--ca-file=/missing,"+ca, "--kubeconfig="+kubeconfig,
		"--csi-address="+servePlugin(t, pluginVersion)), cloud, share
}

// identityServer is the plugin.
type identityServer struct {
	csi.UnimplementedIdentityServer

	version string
}

func (s identityServer) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest,
) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: manilaDriver, VendorVersion: s.version}, nil
}

// servePlugin serves the plugin on a socket, and returns its path.
func servePlugin(t *testing.T, version string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "csi.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, identityServer{version: version})
	go func() { _ = server.Serve(listener) }() // ends without an error when it is stopped
	t.Cleanup(server.Stop)
	return socket
}

// expectAccess compares the access of the fenced client, and expects that others have access.
func expectAccess(t *testing.T, cloud *simulator.Simulator, share string, want simulator.Access) {
	t.Helper()
	access, _ := cloud.ShareAccess(share, netip.MustParseAddr("10.0.0.5"))
	other, _ := cloud.ShareAccess(share, netip.MustParseAddr("10.0.0.6"))
	if access != want || other != "rw" {
		t.Errorf("the client has the access %q, want %q; another client %q", access, want, other)
	}
}

func TestFenceThroughTheSocketRevokesAccessInTheCloud(t *testing.T) {
	t.Parallel()
	client, cloud, share := inCloud(t, "0.9.0@v1.36.0")
	networks := []*fence.CIDR{{Cidr: "10.0.0.5/32"}}
	fenced := func(changed string) func() error {
		return func() error {
			var trailer metadata.MD
			_, err := client.Fence.FenceClusterNetwork(t.Context(),
				&fence.FenceClusterNetworkRequest{Cidrs: networks}, grpc.Trailer(&trailer))
			if got := trailer.Get(wire.ChangedSharesTrailer); !slices.Equal(got, []string{changed}) {
				t.Errorf("the fence has changed %q shares, want %s", got, changed)
			}
			return err
		}
	}
	for _, test := range []struct {
		call func() error
		want simulator.Access
	}{
		{fenced("1"), ""},
		{fenced("0"), ""}, // a verification
		{func() error {
			_, err := client.Fence.UnfenceClusterNetwork(t.Context(),
				&fence.UnfenceClusterNetworkRequest{Cidrs: networks})
			return err
		}, "rw"},
	} {
		if err := test.call(); err != nil {
			t.Fatal(err)
		}
		expectAccess(t, cloud, share, test.want)
	}
}

func TestFenceThroughTheSocketIsRefusedWithAnOldPlugin(t *testing.T) {
	t.Parallel()
	client, cloud, share := inCloud(t, "0.9.0@v1.34.1")
	cloud.ResetLog()
	_, err := client.Fence.FenceClusterNetwork(t.Context(),
		&fence.FenceClusterNetworkRequest{Cidrs: []*fence.CIDR{{Cidr: "10.0.0.5/32"}}})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "v1.34.1") {
		t.Errorf("the error is %v", err)
	}
	if requests := cloud.Log(); len(requests) > 0 {
		t.Errorf("the adapter sent the requests %v", requests)
	}
	expectAccess(t, cloud, share, "rw")
}

// newShare creates a share that all clients may use, as an administrator does, and returns its ID.
func newShare(t *testing.T, file, ca string) (id string) {
	t.Helper()
	auth, endpoint, config, err := clouds.Parse(clouds.WithCloudName("openstack"),
		clouds.WithLocations(file), clouds.WithCACertPath(ca))
	if err != nil {
		t.Fatal(err)
	}
	provider, err := openstackconfig.NewProviderClient(t.Context(), auth,
		openstackconfig.WithTLSConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	manila, err := openstack.NewSharedFileSystemV2(provider, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	manila.Microversion = "2.37" // of the plugin
	share, err := shares.Create(t.Context(), manila, shares.CreateOpts{
		ShareProto: "NFS", Size: 1,
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			found, err := shares.Get(ctx, manila, share.ID).Extract()
			return err == nil && found.Status == "available", err
		})
	if err == nil {
		err = shares.GrantAccess(t.Context(), manila, share.ID, shares.GrantAccessOpts{
			AccessType: "ip", AccessLevel: "rw", AccessTo: "0.0.0.0/0",
		}).Err
	}
	if err != nil {
		t.Fatal(err)
	}
	return share.ID
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
	_, err := load(t, "--driver=ceph", "--csi-addons-address=s", "--staging-path=x", "--csi-address=y")
	expectNames(t, err, "--driver", "--service", "--csi-addons-address", "--staging-path",
		"--csi-address")
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
