package adapter_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/adapter"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/manila"
)

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
	got, err := adapter.ListVolumes(t.Context(), manilaDriver, kubeconfig)
	assert.NilError(t, err)
	want := []manila.Volume{{Name: "a", ShareID: "1"}, {Name: "c", ShareName: "data"}, {Name: "d"}}
	assert.Check(t, is.DeepEqual(want, got), "volumes")
	if got, err := adapter.ListVolumes(t.Context(), manilaDriver, serveVolumes(t)); len(got) > 0 ||
		err != nil {
		t.Errorf("a cluster without volumes has %v, %v", got, err)
	}
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
			got, err := adapter.ListVolumes(t.Context(), manilaDriver, kubeconfig)
			if got != nil || !strings.Contains(fmt.Sprint(err), test.want) ||
				status.Code(err) != codes.Unavailable {
				t.Errorf("the list is %v, %v", got, err)
			}
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
		_, err := adapter.ListVolumes(t.Context(), manilaDriver, path)
		if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("for the kubeconfig %q the error is %v", path, err)
		}
	}
}
