package adapter_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/adapter"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// must fails the test unless the error is nil.
func must(t *testing.T, err error) {
	t.Helper()
	assert.NilError(t, err)
}

// load returns the settings of a command line.
func load(args ...string) (*adapter.Settings, error) {
	var settings adapter.Settings
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	settings.AddTo(set)
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	return &settings, settings.Check()
}

// listen listens on a socket.
func listen(t *testing.T, socket string) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	must(t, err)
	return listener
}

// start runs the adapter until the test ends, and returns a client that is connected to it. The
// adapter replaces the socket of a process that was killed.
func start(t *testing.T, args ...string) *driver.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	killed := listen(t, socket)
	killed.SetUnlinkOnClose(false)
	must(t, killed.Close())
	settings, err := load(append(args, "--csi-addons-address="+socket)...)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- adapter.Run(ctx, settings) }()
	t.Cleanup(func() {
		stop()
		assert.Check(t, <-ended)
	})
	client, err := driver.New(socket)
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	must(t, client.WaitReady(t.Context()))
	return client
}

// The controller of the CSI-Addons for Ceph needs a controller service that reclaims space of
// Cinder: the capability OFFLINE.
func TestIdentityContainsTheServicesOfThePod(t *testing.T) {
	t.Parallel()
	const (
		cinder, manila = "cinder.csi.openstack.org", manilaDriver
		offline        = identity.Capability_ReclaimSpace_OFFLINE
		online         = identity.Capability_ReclaimSpace_ONLINE
	)
	for _, test := range []struct {
		args     []string
		want     driver.Description
		reclaims identity.Capability_ReclaimSpace_Type
		fences   identity.Capability_NetworkFence_Type
	}{
		{
			args: []string{"--driver=cinder", "--service=controller"},
			want: driver.Description{Name: cinder, Controller: true}, reclaims: offline,
		},
		{
			args: []string{"--driver=cinder", "--service=node"},
			want: driver.Description{Name: cinder, Node: true}, reclaims: online,
		},
		{ // as operators before v1.0.0 run it
			args: []string{
				"--driver=manila", "--service=node", "--node-name=a", "--node-address=10.0.0.5,fd00::5",
			},
			want:   driver.Description{Name: manila, Node: true},
			fences: identity.Capability_NetworkFence_GET_CLIENTS_TO_FENCE,
		},
		{
			args: manilaController(), want: driver.Description{Name: manila, Controller: true},
			fences: identity.Capability_NetworkFence_NETWORK_FENCE,
		},
	} {
		client := start(t, test.args...)
		got, err := client.Describe(t.Context())
		must(t, err)
		assert.Check(t, is.DeepEqual(test.want, got), "description")
		answer, err := client.Identity.GetIdentity(t.Context(), &identity.GetIdentityRequest{})
		assert.Check(t, err == nil && answer.GetVendorVersion() != "",
			"the identity is %v, %v", answer, err)
		all, err := client.Identity.GetCapabilities(t.Context(), &identity.GetCapabilitiesRequest{})
		assert.Assert(t, err == nil && len(all.GetCapabilities()) == 2,
			"the capabilities of %v are %v, %v", test.args, all, err)
		operation := all.GetCapabilities()[1]
		if operation.GetReclaimSpace().GetType() != test.reclaims ||
			operation.GetNetworkFence().GetType() != test.fences {
			t.Errorf("for %v the operation is %v", test.args, operation)
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
		assert.Check(t, status.Code(err) == want[0],
			"service %s: the error on the node is %v", service, err)
		_, err = client.ControllerReclaimSpace.ControllerReclaimSpace(t.Context(), offline)
		assert.Check(t, status.Code(err) == want[1],
			"service %s: the error in the controller is %v", service, err)
	}
}

func manilaController() []string {
	return []string{
		"--driver=manila", "--service=controller", "--cluster-id=blue", "--login-folder=/missing/folder",
	}
}

// inCloud runs the controller service of Manila with a share of a PersistentVolume in a simulated
// cloud, the login in a folder, and a plugin that reports a version.
func inCloud(t *testing.T, folder, pluginVersion string) (
	client *driver.Client, cloud *simulator.Simulator, share string,
) {
	t.Helper()
	cloud, err := simulator.New(simulator.Config{
		TLS: true, ShareTypes: []simulator.ShareType{{Name: "default"}},
	})
	must(t, err)
	must(t, cloud.Start(t.Context()))
	t.Cleanup(func() { _ = cloud.Close() })
	mount(t, folder, keysOf(t, cloud))
	ca := filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(ca, cloud.CA(), 0o600))
	manila, err := administrator.Shares(t.Context(),
		cloud.CloudsYAML(simulator.Clouds{CACert: ca}))
	must(t, err)
	share, err = administrator.CreateShare(t.Context(), manila,
		shares.CreateOpts{ShareProto: "NFS", Size: 1})
	must(t, err)
	_, err = administrator.Allow(t.Context(), manila, share, "ip", "rw 0.0.0.0/0")
	must(t, err)
	kubeconfig := serveVolumes(t, volumeOf("a", manilaDriver, `{"shareID": "`+share+`"}`))
	return start(t, "--driver=manila", "--service=controller", "--cluster-id=blue",
		"--login-folder="+folder, "--kubeconfig="+kubeconfig,
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
	listener, server := listen(t, socket), grpc.NewServer()
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
	assert.Check(t, access == want && other == "rw",
		"the client has the access %q, want %q; another client %q", access, want, other)
}

func TestFenceThroughTheSocketRevokesAccessInTheCloud(t *testing.T) {
	t.Parallel()
	client, cloud, share := inCloud(t, t.TempDir(), "0.9.0@v1.36.0")
	networks := []*fence.CIDR{{Cidr: "10.0.0.5/32"}}
	for _, changed := range []string{"1", "0"} { // the second call is a verification
		var trailer metadata.MD
		_, err := client.Fence.FenceClusterNetwork(t.Context(),
			&fence.FenceClusterNetworkRequest{Cidrs: networks}, grpc.Trailer(&trailer))
		must(t, err)
		if got := trailer.Get(wire.ChangedSharesTrailer); !slices.Equal(got, []string{changed}) {
			t.Errorf("the fence has changed %q shares, want %s", got, changed)
		}
		expectAccess(t, cloud, share, "")
	}
	_, err := client.Fence.UnfenceClusterNetwork(t.Context(),
		&fence.UnfenceClusterNetworkRequest{Cidrs: networks})
	must(t, err)
	expectAccess(t, cloud, share, "rw")
}

func TestFenceThroughTheSocketIsRefusedWithAnOldPlugin(t *testing.T) {
	t.Parallel()
	client, cloud, share := inCloud(t, t.TempDir(), "0.9.0@v1.34.1")
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

func TestErrorOfSettingsNamesEveryProblem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, flags []string }{
		{
			[]string{"--driver=ceph", "--csi-addons-address=s", "--staging-path=x", "--csi-address=y"},
			[]string{"driver", "service", "csi-addons-address", "staging-path", "csi-address"},
		},
		{
			[]string{"--driver=manila", "--service=controller", "--max-access-rules=0"},
			[]string{"cluster-id", "max-access-rules"},
		},
		{[]string{"--driver=manila", "--service=node"}, []string{"node-name", "node-address"}},
	} {
		_, err := load(test.args...)
		for _, flag := range test.flags {
			assert.Check(t, err != nil && strings.Contains(err.Error(), "--"+flag),
				"the error does not contain the flag %s: %v", flag, err)
		}
	}
}
