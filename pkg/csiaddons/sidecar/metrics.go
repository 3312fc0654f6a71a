package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// Metrics are the metrics of a sidecar. docs/csi-addons/reference.md describes them.
type Metrics struct {
	operations  *prometheus.CounterVec
	refused     prometheus.Counter
	durations   *prometheus.HistogramVec
	connections prometheus.Gauge
	writes      *prometheus.CounterVec
	announced   prometheus.Gauge
	leader      prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	const prefix = "csi_addons_sidecar_"
	add := promauto.With(registry)
	gauge := func(name, help string) prometheus.Gauge {
		return add.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: prefix + name, Help: help}
	}
	return &Metrics{
		operations: add.NewCounterVec(counter("operations_total",
			"Calls by operation and gRPC code."), []string{"operation", "code"}),
		refused: add.NewCounter(counter("refused_calls_total",
			"Calls without a valid token.")),
		durations: add.NewHistogramVec(prometheus.HistogramOpts{
			Name:    prefix + "operation_duration_seconds",
			Help:    "Duration of calls by operation, after the check of the token.",
			Buckets: []float64{.01, .1, 1, 10, 60, 180, 600, 1800, 3600},
		}, []string{"operation"}),
		connections: gauge("connections", "Open connections of callers."),
		writes: add.NewCounterVec(counter("announcement_writes_total",
			"Attempts to read or write the CSIAddonsNode by result: success or error."),
			[]string{"result"}),
		announced: gauge("announced", "1 if the last attempt to write the CSIAddonsNode succeeded."),
		leader:    gauge("leader", "1 if this pod is the leader of its driver."),
	}
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

func (m *Metrics) announce(err error) {
	if err != nil {
		m.writes.WithLabelValues("error").Inc()
		m.announced.Set(0)
		return
	}
	m.writes.WithLabelValues("success").Inc()
	m.announced.Set(1)
}

func serveMetrics(ctx context.Context, address string) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok"))
	})
	server := &http.Server{
		Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics on %s (flag --http-endpoint): %w", address, err)
	}
	return nil
}
