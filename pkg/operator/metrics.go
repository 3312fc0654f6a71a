package operator

import (
	"k8s.io/component-base/metrics"
)

// cloudMetrics says on /metrics what the looks at the cloud found. The label service is the gate's name.
type cloudMetrics struct {
	reachable *metrics.GaugeVec
	checks    *metrics.CounterVec
}

func newCloudMetrics() cloudMetrics {
	return cloudMetrics{
		reachable: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "openstack_csi_cloud_reachable",
			Help: "1 if OpenStack answered the last look at it, 0 if it was unreachable or refused the credentials.",
		}, []string{"service"}),
		checks: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "openstack_csi_cloud_checks_total",
			Help: "Looks at OpenStack, by what they found: Open, or the reason why not.",
		}, []string{"service", "result"}),
	}
}

// registerWith makes the metrics count; before, they are mute.
func (m cloudMetrics) registerWith(register func(metrics.Registerable) error) error {
	if err := register(m.reachable); err != nil {
		return err
	}
	return register(m.checks)
}

func (m cloudMetrics) observe(service string, a answer) {
	up := 1.0
	if a.err != nil {
		up = 0
	}
	m.reachable.WithLabelValues(service).Set(up)
	m.checks.WithLabelValues(service, a.reason()).Inc()
}
