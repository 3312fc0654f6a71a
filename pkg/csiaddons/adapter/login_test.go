package adapter_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csi-addons/spec/lib/go/fence"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// mount replaces a folder with a Secret, as kubelet mounts it: the keys are links to files.
func mount(t *testing.T, folder string, keys map[string]string) {
	t.Helper()
	const data = "..data"
	must(t, os.RemoveAll(folder))
	must(t, os.MkdirAll(filepath.Join(folder, data), 0o700))
	for key, value := range keys {
		must(t, os.WriteFile(filepath.Join(folder, data, key), []byte(value), 0o600))
		must(t, os.Symlink(filepath.Join(data, key), filepath.Join(folder, key)))
	}
}

// keysOf returns the data of the Secret that the operator writes for Manila's plugin.
func keysOf(t *testing.T, cloud *simulator.Simulator) map[string]string {
	t.Helper()
	login, err := openstack.Content{Data: map[string][]byte{
		openstack.CloudsKey: cloud.CloudsYAML(simulator.Clouds{}), openstack.CAKey: cloud.CA(),
	}}.Login()
	must(t, err)
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
		if want == "" && err != nil || want != "" && (status.Code(err) != codes.Unavailable ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("the error is %v, want %q", err, want)
		}
		if got := cloud.Counters().Calls["POST /identity/v3/auth/tokens"]; got != logins {
			t.Errorf("the adapter sends %d logins, want %d; the error is %v", got, logins, err)
		}
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
	must(t, os.Mkdir(filepath.Join(folder, "..data", "os-folder"), 0o700))
	expect(0, unusable)
	must(t, os.RemoveAll(folder))
	expect(0, unusable)
}
