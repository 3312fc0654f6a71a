package cloudprobe

import (
	"errors"

	"k8s.io/component-base/metrics"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Metrics count the probes of a Probe. Without RegisterWith they record nothing.
type Metrics struct {
	reachable *metrics.GaugeVec
	probes    *metrics.CounterVec
	// limit and used are about quotas.
	limit, used *metrics.GaugeVec
	inError     *metrics.GaugeVec
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
		limit: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "openstack_csi_quota_limit",
			Help: "Quota of the OpenStack project, sizes in GiB. Absent without a limit.",
		}, []string{"driver", "resource"}),
		used: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "openstack_csi_quota_used",
			Help: "Use of the quota, also by others in the OpenStack project. Absent without a limit.",
		}, []string{"driver", "resource"}),
		inError: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "openstack_csi_volumes_in_error",
			Help: "Volumes of this cluster that OpenStack reports in a status of errors, at most 100.",
		}, []string{"driver", "status"}),
	}
}

// RegisterWith adds the metrics to a registry.
func (m Metrics) RegisterWith(register func(metrics.Registerable) error) error {
	return errors.Join(register(m.reachable), register(m.probes), register(m.limit), register(m.used),
		register(m.inError))
}

// observeQuotas replaces the quotas.
func (m Metrics) observeQuotas(driver string, found []openstack.Quota) {
	m.limit.Reset()
	m.used.Reset()
	for _, q := range found {
		m.limit.WithLabelValues(driver, q.Resource).Set(float64(q.Limit))
		m.used.WithLabelValues(driver, q.Resource).Set(float64(q.Used))
	}
}

func (m Metrics) observe(service string, o outcome) {
	up := 1.0
	if o.err != nil {
		up = 0
	}
	m.reachable.WithLabelValues(service).Set(up)
	m.probes.WithLabelValues(service, o.reason()).Inc()
}
