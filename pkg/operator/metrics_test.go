package operator

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	apimachinery "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/metrics"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
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
	assert.NilError(t, err)
	mustServe(t, registry, map[string]float64{
		"openshift_cluster_csi_drivers_build_info buildDate= compiler=gc gitCommit=abc gitTreeState= " +
			"gitVersion=v1.2.3 goVersion=go1.26 major= minor= platform=linux/amd64": 1,
	})
}

func TestEachConditionIsAGauge(t *testing.T) {
	t.Parallel()
	client := newFakeClient(t)
	registry := metrics.NewKubeRegistry()
	registry.CustomMustRegister(newConditionMetric("manila.csi.openstack.org", client))
	client.SetConditions(t, condition("A", opv1.ConditionTrue, "", ""),
		condition("B", opv1.ConditionFalse, "", ""), condition("C", opv1.ConditionUnknown, "", ""))
	const series = "openstack_csi_condition driver=manila.csi.openstack.org type="
	mustServe(t, registry, map[string]float64{series + "A": 1, series + "B": 0, series + "C": 0})
	// Somebody else can write a condition with any reason.
	client.SetConditions(t, condition("AAvailable", opv1.ConditionFalse, "FailedCreate", ""),
		condition("BAvailable", opv1.ConditionFalse, "X", ""))
	mustServe(t, registry, map[string]float64{
		series + "AAvailable": 0, series + "BAvailable": 0,
		"openstack_csi_condition_reason driver=manila.csi.openstack.org reason=FailedCreate " +
			"type=AAvailable": 1,
		"openstack_csi_condition_reason driver=manila.csi.openstack.org reason=Other type=BAvailable": 1,
	})
	// The series of a condition that was removed ends, so that no alert reports it forever.
	client.SetConditions(t, condition("A", opv1.ConditionFalse, "", ""))
	mustServe(t, registry, map[string]float64{series + "A": 0})
}

func TestRequestsToOpenStackAreCounted(t *testing.T) {
	t.Parallel()
	metric := newRequestMetric()
	metric.observe(openstack.Request{Service: "Manila", Code: "200", Duration: time.Second})
	registry := metrics.NewKubeRegistry()
	registry.MustRegister(metric.duration)
	metric.observe(openstack.Request{Service: "Manila", Code: "200", Duration: 20 * time.Second})
	metric.observe(openstack.Request{Service: "Manila", Code: "503", Duration: time.Second})
	const series = "openstack_csi_cloud_request_duration_seconds code="
	mustServe(t, registry, map[string]float64{
		series + "200 service=Manila": 1, series + "503 service=Manila": 1,
	})
}

// mustServe compares the series of a registry: the values of gauges, and the counts of histograms.
func mustServe(t *testing.T, registry metrics.KubeRegistry, want map[string]float64) {
	t.Helper()
	families, err := registry.Gather()
	assert.NilError(t, err)
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			series := family.GetName()
			for _, label := range metric.GetLabel() {
				series += " " + label.GetName() + "=" + label.GetValue()
			}
			got[series] = metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	assert.Check(t, is.DeepEqual(want, got), "series")
}
