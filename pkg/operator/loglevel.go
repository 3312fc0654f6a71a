package operator

import (
	"fmt"

	"k8s.io/klog/v2"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/loglevel"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

func (d *driver) logLevel(string) (factory.Controller, error) {
	client := cluster.View{OperatorClientWithFinalizers: d.operator, Spec: limitLogLevel}
	return loglevel.NewClusterOperatorLoggingController(client, d.events), nil
}

// limitLogLevel limits spec.operatorLogLevel to Trace. At a higher level client-go logs request
// bodies, and with them the Secrets that the operator writes.
func limitLogLevel(spec *opv1.OperatorSpec) (*opv1.OperatorSpec, error) {
	if spec.OperatorLogLevel == opv1.TraceAll {
		spec = spec.DeepCopy()
		spec.OperatorLogLevel = opv1.Trace
	}
	return spec, nil
}

// limitVerbosity limits the flag -v to Trace, for the same reason as limitLogLevel.
func limitVerbosity() error {
	if !klog.V(klog.Level(loglevel.LogLevelToVerbosity(opv1.Trace) + 1)).Enabled() {
		return nil
	}
	if err := loglevel.SetLogLevel(opv1.Trace); err != nil {
		return fmt.Errorf("limiting the log level to %s: %w", opv1.Trace, err)
	}
	return nil
}
