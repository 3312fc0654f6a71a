package version_test

import (
	"runtime"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/version"
)

func TestGet(t *testing.T) {
	t.Parallel()
	got := version.Get()
	if got.GitVersion == "" || got.GoVersion != runtime.Version() || got.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("got %#v", got)
	}
}
