package operator

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apimachinery "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/metrics"
)

// TestBuildInfo: the metric has the name under which dashboards know it.
func TestBuildInfo(t *testing.T) {
	t.Parallel()
	registry := metrics.NewKubeRegistry()
	build := apimachinery.Info{GitVersion: "v1.2.3", GitCommit: "abc", GoVersion: "go1.26", Compiler: "gc", Platform: "linux/amd64"}
	if err := registerBuildInfo(registry.Register, "openshift-cluster-csi-drivers", build); err != nil {
		t.Fatal(err)
	}
	want := []string{"openshift_cluster_csi_drivers_build_info buildDate= compiler=gc gitCommit=abc gitTreeState= gitVersion=v1.2.3 " +
		"goVersion=go1.26 major= minor= platform=linux/amd64 1"}
	if diff := gocmp.Diff(want, gather(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
