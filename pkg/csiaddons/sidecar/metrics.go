package sidecar

import (
	"context"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/component-base/metrics"
)

// Metrics are the metrics of a sidecar. docs/csi-addons/reference.md describes them.
type Metrics struct {
	operations  *metrics.CounterVec
	refused     *metrics.CounterVec
	durations   *metrics.HistogramVec
	connections *metrics.Gauge
	writes      *metrics.CounterVec
	announced   *metrics.Gauge
	leader      *metrics.Gauge
}

// NewMetrics returns metrics, which no registry contains yet.
func NewMetrics() *Metrics {
	const prefix = "csi_addons_sidecar_"
	gauge := func(name, help string) *metrics.Gauge {
		return metrics.NewGauge(&metrics.GaugeOpts{
			Name: prefix + name, Help: help, StabilityLevel: metrics.ALPHA,
		})
	}
	counter := func(name, help string, labels ...string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{
			Name: prefix + name, Help: help, StabilityLevel: metrics.ALPHA,
		}, labels)
	}
	return &Metrics{
		operations: counter("operations_total", "Calls by operation and gRPC code.",
			"operation", "code"),
		refused: counter("refused_calls_total", "Calls without a token for this sidecar."),
		durations: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Name: prefix + "operation_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help:    "Duration of calls by operation, from the check of the token to the answer.",
			Buckets: []float64{.01, .1, 1, 10, 60, 180, 600, 1800, 3600},
		}, []string{"operation"}),
		connections: gauge("connections", "Open connections of callers."),
		writes: counter("announcement_writes_total",
			"Attempts to read or write the CSIAddonsNode by result: success or error.", "result"),
		announced: gauge("announced", "1 if the last attempt to write the CSIAddonsNode succeeded."),
		leader:    gauge("leader", "1 if this pod is the leader of its driver."),
	}
}

// RegisterWith registers the metrics.
func (m *Metrics) RegisterWith(register func(metrics.Registerable) error) error {
	for _, metric := range []metrics.Registerable{
		m.operations, m.refused, m.durations, m.connections, m.writes, m.announced, m.leader,
	} {
		if err := register(metric); err != nil {
			return err
		}
	}
	return nil
}

// observe is a gRPC interceptor that counts and measures calls.
func (m *Metrics) observe(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	start := time.Now()
	response, err := handler(ctx, request)
	operation := path.Base(info.FullMethod) // of a registered service, so there are few
	m.operations.WithLabelValues(operation, status.Code(err).String()).Inc()
	m.durations.WithLabelValues(operation).Observe(time.Since(start).Seconds())
	return response, err
}

// announce counts an attempt to write the CSIAddonsNode.
func (m *Metrics) announce(err error) {
	if err != nil {
		m.writes.WithLabelValues("error").Inc()
		m.announced.Set(0)
		return
	}
	m.writes.WithLabelValues("success").Inc()
	m.announced.Set(1)
}
