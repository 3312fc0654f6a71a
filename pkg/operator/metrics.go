package operator

import (
	"fmt"
	"strings"

	apimachinery "k8s.io/apimachinery/pkg/version"
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

// registerBuildInfo adds the metric that says which build runs. Its name is that of operators made with library-go's controllercmd.
func registerBuildInfo(register func(metrics.Registerable) error, namespace string, build apimachinery.Info) error {
	info := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           strings.ReplaceAll(namespace, "-", "_") + "_build_info",
		Help:           "Always 1. The labels say which build of the operator runs.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"})
	if err := register(info); err != nil {
		return fmt.Errorf("registering the metric of the build: %w", err)
	}
	info.WithLabelValues(build.Major, build.Minor, build.GitVersion, build.GitCommit, build.GitTreeState, build.BuildDate,
		build.GoVersion, build.Compiler, build.Platform).Set(1)
	return nil
}
