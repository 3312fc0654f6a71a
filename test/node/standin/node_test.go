package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// recorded records mounts in place of the kernel: target to "folder rw" or "folder ro".
type recorded map[string]string

func (r recorded) Bind(folder, target string, readOnly bool) error {
	r[target] = folder + map[bool]string{false: " rw", true: " ro"}[readOnly]
	return nil
}

func (r recorded) Unmount(target string) error {
	delete(r, target)
	return nil
}

func (r recorded) Mounted(target string) (bool, error) {
	_, mounted := r[target]
	return mounted, nil
}

func TestPublishFollowsTheAnswerOfTheServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer  string // of the server
		change  func(r *csi.NodePublishVolumeRequest)
		code    codes.Code
		mounted string // rw, ro or nothing
	}{
		"read and write": {answer: `{"access":"rw"}`, mounted: "rw"},
		"read only":      {answer: `{"access":"ro"}`, mounted: "ro"},
		"read-only claim": {
			answer: `{"access":"rw"}`, mounted: "ro",
			change: func(r *csi.NodePublishVolumeRequest) { r.Readonly = true },
		},
		"read-only mount option": {
			answer: `{"access":"rw"}`, mounted: "ro",
			change: func(r *csi.NodePublishVolumeRequest) {
				r.GetVolumeCapability().GetMount().MountFlags = []string{"nfsvers=4.1", "ro"}
			},
		},
		"no access":     {answer: "403", code: codes.PermissionDenied},
		"unknown share": {answer: "404", code: codes.NotFound},
		"broken server": {answer: "500", code: codes.Internal},
		"garbage":       {answer: "<html>", code: codes.Internal},
		"other access":  {answer: `{"access":"all"}`, code: codes.Internal},
		"share outside of the exports": {
			answer: `{"access":"rw"}`, code: codes.InvalidArgument,
			change: func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["share"] = "/shares/../etc" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, test.answer)
			request := publishRequest(t)
			if test.change != nil {
				test.change(request)
			}
			_, err := n.NodePublishVolume(t.Context(), request)
			if code := status.Code(err); code != test.code {
				t.Errorf("error %v, want %s", err, test.code)
			}
			want := ""
			if test.mounted != "" {
				want = filepath.Join(n.exports, "a") + " " + test.mounted
			}
			assert.Check(t, is.Equal(n.mounts.(recorded)[request.GetTargetPath()], want), "mounted")
		})
	}
}

// newNode returns a node with the share a, whose server gives an answer: a status code or JSON.
func newNode(t *testing.T, answer string) *node {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var code int
		if _, err := fmt.Sscan(answer, &code); err == nil {
			http.Error(w, "", code)
			return
		}
		if r.Method != http.MethodGet || r.URL.Path != "/shares/a" {
			t.Errorf("unexpected request %s %s", r.Method, r.URL.Path)
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	assert.NilError(t, err)
	exports := t.TempDir()
	assert.NilError(t, os.Mkdir(filepath.Join(exports, "a"), 0o700))
	return &node{
		exports: exports, port: port, permissions: 0o777, client: server.Client(), mounts: recorded{},
	}
}

func publishRequest(t *testing.T) *csi.NodePublishVolumeRequest {
	t.Helper()
	return &csi.NodePublishVolumeRequest{
		VolumeId: "volume", TargetPath: filepath.Join(t.TempDir(), "pod", "mount"),
		VolumeContext: map[string]string{"server": "127.0.0.1", "share": "/shares/a"},
		VolumeCapability: &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{
			Mount: &csi.VolumeCapability_MountVolume{},
		}},
	}
}
