//go:build monitoring

package monitoring

import (
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// TestEveryExpressionHasDataOfADevcluster scrapes both operators, a csi-provisioner and the metrics
// of the controller of CSI-Addons, which is not connected to real sidecars: no pod runs.
func TestEveryExpressionHasDataOfADevcluster(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	authorization := map[string]any{"credentials": s.token()}
	var targets []map[string]any
	for _, o := range s.operators {
		one := s.target(o.Namespace, o.Name, "https", o.Address)
		one["authorization"] = authorization
		targets = append(targets, one)
	}
	sidecar := s.target("openshift-manila-csi-driver", "manila-csi-driver-controller-monitor",
		"provisioner-m", s.startProvisioner())
	sidecar["scheme"] = "http" // without kube-rbac-proxy
	addons := map[string]any{
		"job_name":       "csi-addons",
		"static_configs": []any{map[string]any{"targets": []string{serveAddons(t)}}},
	}
	file := filepath.Join(s.folder, "rules.yaml")
	rules := writeRules(t, file)
	s.startPrometheus(file, append(targets, sidecar, addons))
	for _, selector := range selectors(rules) {
		s.await(selector)
	}
	for _, expression := range []string{
		`openstack_csi_condition{driver="manila.csi.openstack.org",type="Ready"} == 1`,
		`openstack_csi_condition{driver="cinder.csi.openstack.org",type="Ready"} == 1`,
		`openstack_csi_condition_reason{driver="manila.csi.openstack.org",reason="AsExpected"}`,
		`openstack_csi_cloud_reachable{service="Manila"}`,
		`openstack_csi_cloud_checks_total{service="Manila",result="Open"}`,
		`openshift_cluster_csi_drivers_build_info == 1`,
		`openstack_csi_cloud_request_duration_seconds_count{service="Keystone",code="201"}`,
		`ALERTS{alertname="OpenStackCSICredentialsExpire",alertstate="pending"}`,
		`ALERTS{alertname="OpenStackCSIOperationsFail",method_name=~".+/CreateVolume"}`,
	} {
		s.await(expression)
	}
	s.mustEvaluate(len(rules))
}

// selectors returns the selectors of series in the expressions, except those of kube-state-metrics,
// which does not run.
func selectors(rules []rule) []string {
	// Only operators that add CSI-Addons to their driver write this condition.
	const withoutData = `openstack_csi_condition{type=~".+CSIAddonsActive"}`
	metric := regexp.MustCompile(`\b(?:up|(?:kube|openstack_csi|csi|leader_election)_\w+)\b` +
		`(?:\{[^}]*\})?`)
	var found []string
	for _, r := range rules {
		for _, selector := range metric.FindAllString(r.Expr, -1) {
			selector = strings.Join(strings.Fields(selector), "")
			if selector != withoutData && !strings.HasPrefix(selector, "kube_") &&
				!slices.Contains(found, selector) {
				found = append(found, selector)
			}
		}
	}
	return found
}

// serveAddons serves the metrics of a controller of CSI-Addons with a connected sidecar.
func serveAddons(t *testing.T) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	const driver = "cinder.csi.openstack.org"
	metrics := connection.NewMetrics(registry)
	metrics.Connected(driver, 1)
	metrics.Ended(driver, "NodeReclaimSpace", "OK", time.Second)
	metrics.Repaired(driver, 1)
	metrics.Verified(driver, time.Now())
	listening := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(listening.Close)
	return strings.TrimPrefix(listening.URL, "http://")
}
