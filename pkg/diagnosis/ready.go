package diagnosis

import (
	"fmt"
	"strings"

	opv1 "github.com/openshift/api/operator/v1"
)

// ConditionReady is the type of the condition that Ready returns.
const ConditionReady = "Ready"

// The reasons of Ready that are not those of a finding.
const (
	ReasonAsExpected = "AsExpected"
	// ReasonDeploying means that a workload has no available pod, or is rolled out.
	ReasonDeploying = "Deploying"
	// ReasonDriverDisabled means that the cloud does not offer what the driver needs.
	ReasonDriverDisabled = "DriverDisabled"
)

// Ready returns the condition Ready for the findings of Driver. It is False if there is a problem
// or a rollout; warnings do not change it. It is Unknown for a driver that is not managed.
func Ready(findings []Finding) opv1.OperatorCondition {
	serious := 0
	for _, f := range findings {
		if f.Severity != Warning {
			serious++
		}
	}
	if serious > 0 {
		return ready(opv1.ConditionFalse, findings[0].Reason, message(findings[0], serious-1))
	}
	for _, f := range findings {
		switch {
		case f.Type == managementState:
			return ready(opv1.ConditionUnknown, f.Reason, f.Message)
		case strings.HasSuffix(f.Type, suffixDisabled):
			return ready(opv1.ConditionTrue, ReasonDriverDisabled, message(f, 0))
		}
	}
	return ready(opv1.ConditionTrue, ReasonAsExpected, "The driver is ready")
}

func ready(status opv1.ConditionStatus, reason, message string) opv1.OperatorCondition {
	return opv1.OperatorCondition{
		Type: ConditionReady, Status: status, Reason: reason, Message: message,
	}
}

// message returns the finding and the number of others in one line, which clients show in a column.
func message(f Finding, more int) string {
	text := f.Type + ": " + strings.Join(strings.Split(f.Message, "\n"), "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
