package version_test

import (
	"runtime"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/version"
)

func TestGetDescribesTheBuild(t *testing.T) {
	t.Parallel()
	got := version.Get()
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if got.GitVersion == "" || got.GoVersion != runtime.Version() || got.Platform != platform {
		t.Errorf("got %#v", got)
	}
}
