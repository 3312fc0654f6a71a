package connection

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of the controller. Who calls sidecars writes them. Labels contain drivers
// of the settings only, so their number is bounded.
type Metrics struct {
	operations  *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	reclaimed   *prometheus.CounterVec
	running     *prometheus.GaugeVec
	waiting     prometheus.Gauge
	connections *prometheus.GaugeVec
	repaired    *prometheus.CounterVec
	verified    *prometheus.GaugeVec
}

const (
	namespace   = "csi_addons"
	labelDriver = "driver"
	labelKind   = "operation"
)

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	add := promauto.With(registry)
	gauge := func(name, help string) *prometheus.GaugeVec {
		return add.NewGaugeVec(
			prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, []string{labelDriver})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return add.NewCounterVec(
			prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help},
			append([]string{labelDriver}, labels...))
	}
	const first, factor, buckets = 0.1, 3, 10 // 0.1 s to about half an hour
	return &Metrics{
		operations: counter("operations_total",
			"Calls of drivers that ended, by operation and gRPC code.", labelKind, "code"),
		duration: add.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "operation_duration_seconds",
			Help:    "Duration of calls of drivers.",
			Buckets: prometheus.ExponentialBuckets(first, factor, buckets),
		}, []string{labelDriver, labelKind}),
		reclaimed: counter("reclaimed_bytes_total", "Bytes that drivers report as reclaimed."),
		running:   gauge("operations_running", "Calls of drivers that reclaim space now."),
		waiting: add.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "operations_waiting",
			Help: "Operations that wait because too many calls run.",
		}),
		connections: gauge("sidecars_connected", "Sidecars to which the controller is connected."),
		repaired: counter("fence_repaired_shares_total",
			"Shares to which fenced clients had access again, until a check has revoked it."),
		verified: gauge("fence_verified_timestamp_seconds", "When the fence was verified whose last "+
			"verification is the longest ago, in seconds since 1970."),
	}
}

// Ended counts a call of a driver that has ended with a gRPC code.
func (m *Metrics) Ended(driver, operation, code string, took time.Duration) {
	m.operations.WithLabelValues(driver, operation, code).Inc()
	m.duration.WithLabelValues(driver, operation).Observe(took.Seconds())
}

// Reclaimed adds bytes that a driver has reclaimed.
func (m *Metrics) Reclaimed(driver string, bytes int64) {
	m.reclaimed.WithLabelValues(driver).Add(float64(bytes))
}

// Running sets the number of calls of a driver, and of operations that wait for a call to end.
func (m *Metrics) Running(driver string, calls, waiting int) {
	m.running.WithLabelValues(driver).Set(float64(calls))
	m.waiting.Set(float64(waiting))
}

// Repaired adds shares to which a driver has revoked access again.
func (m *Metrics) Repaired(driver string, shares uint64) {
	m.repaired.WithLabelValues(driver).Add(float64(shares))
}

// Connected adds a number of connected sidecars of a driver.
func (m *Metrics) Connected(driver string, change int) {
	m.connections.WithLabelValues(driver).Add(float64(change))
}

// Verified sets when the fence of a driver was verified whose verification is the longest ago. A
// zero time means that no fence holds.
func (m *Metrics) Verified(driver string, oldest time.Time) {
	if oldest.IsZero() {
		m.verified.DeleteLabelValues(driver)
		return
	}
	m.verified.WithLabelValues(driver).Set(float64(oldest.Unix()))
}
