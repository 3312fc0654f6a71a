package operator

import (
	"fmt"

	"k8s.io/klog/v2"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/loglevel"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
)

func (d *driver) logLevel(string) (factory.Controller, error) {
	return loglevel.NewClusterOperatorLoggingController(logLevelCap{d.operator}, d.events), nil
}

// logLevelCap limits spec.operatorLogLevel to Trace. At a higher level client-go logs request
// bodies, and with them the Secrets that the operator writes.
type logLevelCap struct {
	v1helpers.OperatorClient
}

func (c logLevelCap) GetOperatorState() (*opv1.OperatorSpec, *opv1.OperatorStatus, string, error) {
	spec, status, version, err := c.OperatorClient.GetOperatorState()
	if err == nil && spec.OperatorLogLevel == opv1.TraceAll {
		spec = spec.DeepCopy()
		spec.OperatorLogLevel = opv1.Trace
	}
	return spec, status, version, err
}

// limitVerbosity limits the flag -v to Trace, for the same reason as logLevelCap.
func limitVerbosity() error {
	if !klog.V(klog.Level(loglevel.LogLevelToVerbosity(opv1.Trace) + 1)).Enabled() {
		return nil
	}
	if err := loglevel.SetLogLevel(opv1.Trace); err != nil {
		return fmt.Errorf("limiting the log level to %s: %w", opv1.Trace, err)
	}
	return nil
}
