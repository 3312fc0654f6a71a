package operator

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apimachinery "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/metrics"
)

// Dashboards use the name of the metric.
func TestBuildMetricHasTheNameOfControllercmd(t *testing.T) {
	t.Parallel()
	registry := metrics.NewKubeRegistry()
	build := apimachinery.Info{
		GitVersion: "v1.2.3", GitCommit: "abc", GoVersion: "go1.26", Compiler: "gc",
		Platform: "linux/amd64",
	}
	err := registerBuildInfo(registry.Register, "openshift-cluster-csi-drivers", build)
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("metrics are %v, want one", families)
	}
	metric := families[0].GetMetric()[0]
	got := map[string]string{}
	for _, label := range metric.GetLabel() {
		got[label.GetName()] = label.GetValue()
	}
	want := map[string]string{
		"buildDate": "", "compiler": "gc", "gitCommit": "abc", "gitTreeState": "", "gitVersion": "v1.2.3",
		"goVersion": "go1.26",
		"major":     "", "minor": "", "platform": "linux/amd64",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	name, value := families[0].GetName(), metric.GetGauge().GetValue()
	if name != "openshift_cluster_csi_drivers_build_info" || value != 1 {
		t.Errorf("the metric is %s %v", name, value)
	}
}
