package cloudprobe

import "k8s.io/component-base/metrics"

// Metrics count the probes of a Probe. Without RegisterWith they record nothing.
type Metrics struct {
	reachable *metrics.GaugeVec
	probes    *metrics.CounterVec
}

func newMetrics() Metrics {
	return Metrics{
		reachable: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "openstack_csi_cloud_reachable",
			Help: "1 if the last probe of OpenStack succeeded, 0 if OpenStack was unreachable or " +
				"refused the credentials.",
		}, []string{"service"}),
		probes: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "openstack_csi_cloud_checks_total",
			Help: "Probes of OpenStack by result: Open, or the reason why not.",
		}, []string{"service", "result"}),
	}
}

// RegisterWith adds the metrics to a registry.
func (m Metrics) RegisterWith(register func(metrics.Registerable) error) error {
	if err := register(m.reachable); err != nil {
		return err
	}
	return register(m.probes)
}

func (m Metrics) observe(service string, o outcome) {
	up := 1.0
	if o.err != nil {
		up = 0
	}
	m.reachable.WithLabelValues(service).Set(up)
	m.probes.WithLabelValues(service, o.reason()).Inc()
}
