package operator

import (
	"fmt"

	"k8s.io/klog/v2"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/loglevel"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
)

// discreet shows an operator's log level no higher than Trace, the highest at which client-go logs no bodies: above it, the
// Secrets that the operator writes would be in its log. The operands' own level is not touched.
type discreet struct {
	v1helpers.OperatorClient
}

func (d discreet) GetOperatorState() (*opv1.OperatorSpec, *opv1.OperatorStatus, string, error) {
	spec, status, version, err := d.OperatorClient.GetOperatorState()
	if err == nil && spec.OperatorLogLevel == opv1.TraceAll {
		spec = spec.DeepCopy()
		spec.OperatorLogLevel = opv1.Trace
	}
	return spec, status, version, err
}

// limitVerbosity lowers what the flag -v asked for to Trace, for the same reason.
func limitVerbosity() error {
	if !klog.V(klog.Level(loglevel.LogLevelToVerbosity(opv1.Trace) + 1)).Enabled() {
		return nil
	}
	if err := loglevel.SetLogLevel(opv1.Trace); err != nil {
		return fmt.Errorf("limiting the log level to %s: %w", opv1.Trace, err)
	}
	return nil
}
