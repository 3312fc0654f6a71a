package sidecar

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/test/openstack/port"
)

func TestMetricsCountOperationsAndConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	f.awaitHolder("pod-a")
	connection := f.connectPinned()
	client := wire.NewReclaimSpaceClient(connection)
	for token, accepted := range map[string]bool{controllerToken: true, "of-nobody": false} {
		_, err := client.NodeReclaimSpace(f.with(token), &wire.ReclaimSpaceRequest{PvName: "data"})
		assert.Check(t, (err == nil) == accepted, "with the token %q the call returns %v", token, err)
	}
	for _, open := range []float64{1, 0} {
		want := map[string]float64{
			"announced": 1, "connections": open, "leader": 1,
			"operations_total OK NodeReclaimSpace":        1,
			"operation_duration_seconds NodeReclaimSpace": 1,
			"refused_calls_total":                         1,
			"announcement_writes_total success":           1,
		}
		eventually(t, "the metrics are correct", func(context.Context) bool {
			got := values(t, f.registry)
			// The announcer may write again when the watch starts.
			got["announcement_writes_total success"] = min(1, got["announcement_writes_total success"])
			return cmp.Equal(want, got)
		})
		connection.Close()
	}
}

// values returns the values of counters and gauges, and the counts of histograms, by the name
// without the prefix and the values of the labels.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	assert.NilError(t, err)
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			key := strings.TrimPrefix(family.GetName(), "csi_addons_sidecar_")
			for _, label := range metric.GetLabel() {
				key += " " + label.GetValue()
			}
			found[key] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() +
				float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return found
}

func TestHTTPEndpointServesMetricsAndHealth(t *testing.T) {
	t.Parallel()
	reserved, err := port.Reserve("127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = reserved.Release() })
	address := "127.0.0.1:" + strconv.Itoa(reserved.Port())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveMetrics(ctx, address) }()
	for path, want := range map[string]string{"/metrics": "go_goroutines", "/healthz": "ok"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path,
			http.NoBody)
		assert.NilError(t, err)
		eventually(t, path+" answers", func(context.Context) bool {
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return false
			}
			defer response.Body.Close()
			content, err := io.ReadAll(response.Body)
			return err == nil && strings.Contains(string(content), want)
		})
	}
	if err := serveMetrics(t.Context(), address); err == nil ||
		!strings.Contains(err.Error(), "--http-endpoint") {
		t.Errorf("for an address in use the error is %v", err)
	}
	cancel()
	assert.Check(t, <-ended, "the endpoint ends with")
}
