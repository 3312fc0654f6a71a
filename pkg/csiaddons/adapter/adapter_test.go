package adapter

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
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
	"google.golang.org/protobuf/proto"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/manila"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/test/fakedriver"
	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// load returns the settings of a command line.
func load(args ...string) (*Settings, error) {
	var settings Settings
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	settings.AddTo(set)
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	return &settings, settings.Check()
}

// start runs the adapter until the test ends, and returns a client that is connected to it. The
// adapter replaces the socket of a process that was killed.
func start(t *testing.T, args ...string) *driver.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	assert.NilError(t, err)
	killed.SetUnlinkOnClose(false)
	assert.NilError(t, killed.Close())
	settings, err := load(append(args, "--csi-addons-address="+socket)...)
	assert.NilError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, settings) }()
	t.Cleanup(func() {
		stop()
		assert.Check(t, <-ended)
	})
	client, err := driver.New(socket)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	assert.NilError(t, client.WaitReady(t.Context()))
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
		{
			args: manilaController(), want: driver.Description{Name: manila, Controller: true},
			fences: identity.Capability_NetworkFence_NETWORK_FENCE,
		},
		{
			args:   append(manilaController(), "--driver-name=nfs."+manila),
			want:   driver.Description{Name: "nfs." + manila, Controller: true},
			fences: identity.Capability_NetworkFence_NETWORK_FENCE,
		},
	} {
		client := start(t, test.args...)
		got, err := client.Describe(t.Context())
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(test.want, got), "description")
		answer, err := client.Identity.GetIdentity(t.Context(), &identity.GetIdentityRequest{})
		assert.Check(t, err == nil && answer.GetVendorVersion() != "", "%v, %v", answer, err)
		all, err := client.Identity.GetCapabilities(t.Context(), &identity.GetCapabilitiesRequest{})
		assert.Assert(t, err == nil && len(all.GetCapabilities()) == 2, "%v: %v", test.args, err)
		operation := all.GetCapabilities()[1]
		assert.Check(t, operation.GetReclaimSpace().GetType() == test.reclaims &&
			operation.GetNetworkFence().GetType() == test.fences,
			"for %v the operation is %v", test.args, operation)
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
		assert.Check(t, is.Equal(status.Code(err), want[0]), "%s: on the node: %v", service, err)
		_, err = client.ControllerReclaimSpace.ControllerReclaimSpace(t.Context(), offline)
		assert.Check(t, is.Equal(status.Code(err), want[1]), "%s: in the controller: %v", service, err)
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
	assert.NilError(t, err)
	assert.NilError(t, cloud.Start(t.Context()))
	t.Cleanup(func() { _ = cloud.Close() })
	mount(t, folder, keysOf(t, cloud))
	ca := filepath.Join(t.TempDir(), "ca.crt")
	assert.NilError(t, os.WriteFile(ca, cloud.CA(), 0o600))
	manila, err := administrator.Shares(t.Context(),
		cloud.CloudsYAML(simulator.Clouds{CACert: ca}))
	assert.NilError(t, err)
	share, err = administrator.CreateShare(t.Context(), manila,
		shares.CreateOpts{ShareProto: "NFS", Size: 1})
	assert.NilError(t, err)
	_, err = administrator.Allow(t.Context(), manila, share, "ip", "rw 0.0.0.0/0")
	assert.NilError(t, err)
	kubeconfig := serveVolumes(t, volumeOf("a", manilaDriver, `{"shareID": "`+share+`"}`))
	plugin := fakedriver.Serve(t, func(context.Context, string) (proto.Message, error) {
		return &csi.GetPluginInfoResponse{Name: manilaDriver, VendorVersion: pluginVersion}, nil
	})
	return start(t, "--driver=manila", "--service=controller", "--cluster-id=blue",
		"--login-folder="+folder, "--kubeconfig="+kubeconfig, "--csi-address="+plugin.Socket,
	), cloud, share
}

// expectAccess compares the access of the fenced client, and expects that others have access.
func expectAccess(t *testing.T, cloud *simulator.Simulator, share string, want string) {
	t.Helper()
	access, _ := cloud.ShareAccess(share, netip.MustParseAddr("10.0.0.5"))
	other, _ := cloud.ShareAccess(share, netip.MustParseAddr("10.0.0.6"))
	assert.Check(t, access == want && other == "rw", "access %q; of another client %q", access, other)
}

func TestFenceThroughTheSocketRevokesAccessInTheCloud(t *testing.T) {
	t.Parallel()
	client, cloud, share := inCloud(t, t.TempDir(), "0.9.0@v1.36.0")
	networks := []*fence.CIDR{{Cidr: "10.0.0.5/32"}}
	for _, changed := range []string{"1", "0"} { // the second call is a verification
		var trailer metadata.MD
		_, err := client.Fence.FenceClusterNetwork(t.Context(),
			&fence.FenceClusterNetworkRequest{Cidrs: networks}, grpc.Trailer(&trailer))
		assert.NilError(t, err)
		got := trailer.Get(wire.ChangedSharesTrailer)
		assert.Check(t, is.DeepEqual([]string{changed}, got), "changed shares")
		expectAccess(t, cloud, share, "")
	}
	_, err := client.Fence.UnfenceClusterNetwork(t.Context(),
		&fence.UnfenceClusterNetworkRequest{Cidrs: networks})
	assert.NilError(t, err)
	expectAccess(t, cloud, share, "rw")
}

func TestFenceThroughTheSocketIsRefusedWithAnOldPlugin(t *testing.T) {
	t.Parallel()
	client, cloud, share := inCloud(t, t.TempDir(), "0.9.0@v1.34.1")
	cloud.ResetLog()
	_, err := client.Fence.FenceClusterNetwork(t.Context(),
		&fence.FenceClusterNetworkRequest{Cidrs: []*fence.CIDR{{Cidr: "10.0.0.5/32"}}})
	assert.Check(t, status.Code(err) == codes.FailedPrecondition &&
		strings.Contains(err.Error(), "v1.34.1"), "the error is %v", err)
	assert.Check(t, is.Len(cloud.Log(), 0), "requests of the adapter")
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
		{[]string{"--driver=manila", "--service=node"}, []string{"service"}},
	} {
		_, err := load(test.args...)
		for _, flag := range test.flags {
			assert.Check(t, is.ErrorContains(err, "--"+flag))
		}
	}
}

// mount replaces a folder with a Secret, as kubelet mounts it: the keys are links to files.
func mount(t *testing.T, folder string, keys map[string]string) {
	t.Helper()
	const data = "..data"
	assert.NilError(t, os.RemoveAll(folder))
	assert.NilError(t, os.MkdirAll(filepath.Join(folder, data), 0o700))
	for key, value := range keys {
		assert.NilError(t, os.WriteFile(filepath.Join(folder, data, key), []byte(value), 0o600))
		assert.NilError(t, os.Symlink(filepath.Join(data, key), filepath.Join(folder, key)))
	}
}

// keysOf returns the data of the Secret that the operator writes for Manila's plugin.
func keysOf(t *testing.T, cloud *simulator.Simulator) map[string]string {
	t.Helper()
	login, err := clouds.Content{Data: map[string][]byte{
		clouds.Key: cloud.CloudsYAML(simulator.Clouds{}), clouds.CAKey: cloud.CA(),
	}}.Login()
	assert.NilError(t, err)
	return login.ManilaKeys()
}

// The operator writes the Secret after the pod starts, and again when a login or a CA changes.
func TestLoginFollowsTheMountedSecret(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	client, cloud, _ := inCloud(t, folder, "0.9.0@v1.36.0")
	expect := func(logins int, want string) {
		t.Helper()
		cloud.ResetLog()
		_, err := client.Fence.ListClusterFence(t.Context(), &fence.ListClusterFenceRequest{})
		assert.Check(t, (want != "" || err == nil) &&
			(want == "" || status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), want)),
			"the error is %v, want %q", err, want)
		got := cloud.Counters().Calls["POST /identity/v3/auth/tokens"]
		assert.Check(t, is.Equal(got, logins), "logins; the error is %v", err)
	}
	good := keysOf(t, cloud)
	change := func(key, value string) map[string]string {
		keys := maps.Clone(good)
		delete(keys, "os-certAuthority")
		keys[key] = value
		return keys
	}
	unusable := fmt.Sprintf("The login in folder %s, the Secret that the driver reads, cannot be "+
		"used: ", folder)
	for _, step := range []struct {
		keys   map[string]string
		logins int
		want   string
	}{
		{nil, 0, unusable + "has no key os-authURL"},
		{change("os-password", ""), 0, unusable + "has neither key os-password nor"},
		{change("os-TLSInsecure", "false"), 0, "certificate"},
		{change("os-certAuthority", "no PEM"), 0, "certificate"},
		{good, 1, ""},
		{good, 0, ""},
		{change("os-TLSInsecure", "true"), 1, ""},
		{nil, 0, unusable},
		{good, 1, ""},
	} {
		mount(t, folder, step.keys)
		expect(step.logins, step.want)
	}
	cloud.RotateCredentials(simulator.Rotation{Password: "another"})
	expect(1, "refused the login (HTTP 401)")
	expect(0, "refused the login (HTTP 401)") // a repetition could lock the user out
	mount(t, folder, keysOf(t, cloud))
	expect(1, "")
	assert.NilError(t, os.Mkdir(filepath.Join(folder, "..data", "os-folder"), 0o700))
	expect(0, unusable)
	assert.NilError(t, os.RemoveAll(folder))
	expect(0, unusable)
}

const manilaDriver = "manila.csi.openstack.org"

// serveVolumes serves a list of PersistentVolumes, and returns the path of a kubeconfig. The list
// has as many parts as the answer has items.
func serveVolumes(t *testing.T, items ...string) (kubeconfig string) {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		part := len(query.Get("continue"))
		if r.URL.Path != "/api/v1/persistentvolumes" || query.Get("limit") == "" || part > len(items) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		next, item := strings.Repeat("x", part+1), ""
		if part < len(items) {
			item = items[part]
		}
		if part+1 >= len(items) {
			next = ""
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion": "v1", "kind": "PersistentVolumeList",
			"metadata": {"resourceVersion": "1", "continue": %q}, "items": [%s]}`, next, item)
	})
}

// serve serves an API server, and returns the path of a kubeconfig.
func serve(t *testing.T, handler http.HandlerFunc) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config",
		"clusters": [{"name": "a", "cluster": {"server": %q}}], "users": [{"name": "a", "user": {}}],
		"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a"}`,
		server.URL), 0o600)
	assert.NilError(t, err)
	return kubeconfig
}

// volumeOf returns a PersistentVolume of a driver with attributes.
func volumeOf(name, driver, attributes string) string {
	return fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"capacity": {"storage": "1Gi"},
		"csi": {"driver": %q, "volumeAttributes": %s}}}`, name, driver, attributes)
}

func TestVolumesOfTheDriverAreListedPageByPage(t *testing.T) {
	t.Parallel()
	const local = `{"metadata": {"name": "local"}, "spec": {"local": {"path": "/a"}}}`
	kubeconfig := serveVolumes(t,
		volumeOf("a", manilaDriver, `{"shareID": "1", "shareAccessID": "2", "shareid": "3"}`)+","+local,
		volumeOf("b", "cinder.csi.openstack.org", `{"shareID": "4"}`),
		volumeOf("c", manilaDriver, `{"shareName": "data"}`)+","+volumeOf("d", manilaDriver, `null`))
	got, err := volumes{manilaDriver, kubeconfig}.list(t.Context())
	assert.NilError(t, err)
	want := []manila.Volume{{Name: "a", ShareID: "1"}, {Name: "c", ShareName: "data"}, {Name: "d"}}
	assert.Check(t, is.DeepEqual(want, got), "volumes")
	got, err = volumes{manilaDriver, serveVolumes(t)}.list(t.Context())
	assert.Check(t, len(got) == 0 && err == nil, "a cluster without volumes has %v, %v", got, err)
}

// An answer that is not the whole list would leave shares out of a fence.
func TestIncompleteListOfVolumesIsAnError(t *testing.T) {
	t.Parallel()
	const noList = "did not return a list"
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"forbidden": {
			http.StatusForbidden, `{"apiVersion": "v1", "kind": "Status", "status": "Failure",
			"reason": "Forbidden", "code": 403, "message": "no permission"}`, "no permission",
		},
		"expired": {
			http.StatusGone, `{"apiVersion": "v1", "kind": "Status", "status": "Failure",
			"reason": "Expired", "code": 410, "message": "too old"}`, "too old",
		},
		"overloaded":     {http.StatusInternalServerError, "x", "listing the PersistentVolumes: "},
		"a page of HTML": {http.StatusOK, "<html>", noList},
		"another object": {
			http.StatusOK, `{"apiVersion": "v1", "kind": "PersistentVolume",
			"metadata": {"resourceVersion": "1"}}`, noList,
		},
		"no object": {http.StatusOK, "{}", noList},
		"half":      {http.StatusOK, `{"kind": "PersistentVolumeList", "items": [{`, noList},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kubeconfig := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			})
			got, err := volumes{manilaDriver, kubeconfig}.list(t.Context())
			assert.Check(t, got == nil && strings.Contains(fmt.Sprint(err), test.want) &&
				status.Code(err) == codes.Unavailable, "the list is %v, %v", got, err)
		})
	}
}

func TestUnreachableAPIServerIsUnavailable(t *testing.T) {
	t.Parallel()
	kubeconfig := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if connection, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = connection.Close()
		}
	})
	for _, path := range []string{kubeconfig, "/missing", ""} {
		_, err := volumes{manilaDriver, path}.list(t.Context())
		assert.Check(t, status.Code(err) == codes.Unavailable &&
			!strings.Contains(err.Error(), "127.0.0.1"), "for the kubeconfig %q the error is %v", path, err)
	}
}
