package operator

import (
	"fmt"
	"slices"
	"strings"

	apimachinery "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/metrics"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// registerBuildInfo adds the metric of the running build. Its name is the same as in operators that
// use library-go's controllercmd.
func registerBuildInfo(
	register func(metrics.Registerable) error, namespace string, build apimachinery.Info,
) error {
	info := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           strings.ReplaceAll(namespace, "-", "_") + "_build_info",
		Help:           "Always 1. The labels identify the build of the operator.",
		StabilityLevel: metrics.ALPHA,
	}, []string{
		"major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler",
		"platform",
	})
	if err := register(info); err != nil {
		return fmt.Errorf("registering the metric of the build: %w", err)
	}
	info.WithLabelValues(
		build.Major, build.Minor, build.GitVersion, build.GitCommit, build.GitTreeState, build.BuildDate,
		build.GoVersion, build.Compiler, build.Platform,
	).Set(1)
	return nil
}

// requestMetric measures requests to OpenStack. It records nothing until it is registered.
type requestMetric struct{ duration *metrics.HistogramVec }

func newRequestMetric() requestMetric {
	return requestMetric{metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name: "openstack_csi_cloud_request_duration_seconds",
		Help: "Time until OpenStack answered an HTTP request, by service and HTTP status. The code " +
			"error means that there was no answer.",
		// A request fails after 120 s.
		Buckets:        []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120},
		StabilityLevel: metrics.ALPHA,
	}, []string{"service", "code"})}
}

func (m requestMetric) observe(r openstack.Request) {
	m.duration.WithLabelValues(r.Service, r.Code).Observe(r.Duration.Seconds())
}

// conditionMetric is a gauge for each condition in the cache of the driver's object, and another
// one for the reason of each condition that ends in Available. The second one is not a label of the
// first one, because each reason would start a new series, and the wait of the alerts anew.
type conditionMetric struct {
	metrics.BaseStableCollector

	desc, reasons *metrics.Desc
	driver        string
	operator      v1helpers.OperatorClient
}

func newConditionMetric(driver string, operator v1helpers.OperatorClient) *conditionMetric {
	return &conditionMetric{
		desc: metrics.NewDesc("openstack_csi_condition",
			"1 while the condition of the driver is True, otherwise 0.",
			[]string{"driver", "type"}, nil, metrics.ALPHA, ""),
		reasons: metrics.NewDesc("openstack_csi_condition_reason",
			"Always 1. The label reason is that of the condition, whose type ends in Available.",
			[]string{"driver", "type", "reason"}, nil, metrics.ALPHA, ""),
		driver: driver, operator: operator,
	}
}

// DescribeWithStability implements metrics.StableCollector.
func (m *conditionMetric) DescribeWithStability(descriptions chan<- *metrics.Desc) {
	descriptions <- m.desc
	descriptions <- m.reasons
}

// CollectWithStability implements metrics.StableCollector. It collects nothing before the cache
// contains the object.
func (m *conditionMetric) CollectWithStability(collected chan<- metrics.Metric) {
	_, status, _, err := m.operator.GetOperatorState()
	if err != nil {
		return
	}
	for _, c := range status.Conditions {
		value := 0.0
		if c.Status == opv1.ConditionTrue {
			value = 1
		}
		collected <- metrics.NewLazyConstMetric(m.desc, metrics.GaugeValue, value, m.driver, c.Type)
		if strings.HasSuffix(c.Type, opv1.OperatorStatusTypeAvailable) {
			collected <- metrics.NewLazyConstMetric(m.reasons, metrics.GaugeValue, 1, m.driver, c.Type,
				knownReason(c.Reason))
		}
	}
}

// knownReason returns a reason from a closed set: somebody else may have written the condition.
func knownReason(reason string) string {
	known := append(diagnosis.PodReasons(), diagnosis.ReasonAsExpected, diagnosis.ReasonDeploying)
	if slices.Contains(known, reason) {
		return reason
	}
	return "Other"
}
