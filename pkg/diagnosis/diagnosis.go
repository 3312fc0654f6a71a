// Package diagnosis decides from objects what is wrong with a driver: what is a problem, and what
// is only a warning. It sends no requests. pkg/operator calls it for the condition Ready, and the
// devcluster for what it prints, so that both say the same.
package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"
)

// Severity says how important a finding is. The zero value means that there is nothing to report.
type Severity string

const (
	// Problem means that the driver does not work as it should, or soon will not.
	Problem Severity = "Problem"
	// Progress means that a workload is rolled out. A driver that is rolled out is not ready.
	Progress Severity = "Progress"
	// Warning means that the driver works, but does not do all that an administrator may expect.
	Warning Severity = "Warning"
)

// Severities returns the severities, the worst first.
func Severities() []Severity { return []Severity{Problem, Progress, Warning} }

// Compare sorts severities, the worst first.
func (s Severity) Compare(other Severity) int {
	return cmp.Compare(slices.Index(Severities(), s), slices.Index(Severities(), other))
}

// Finding is something that an administrator should know about a driver.
type Finding struct {
	Severity Severity `json:"severity"`
	// Type is the type of the condition that reports the finding.
	Type    string `json:"type"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Since is when the condition got its status. It is zero if no condition reports the finding.
	Since metav1.Time `json:"since,omitzero"`
	// Runbook is the anchor of the finding in docs/runbooks.md, "" if there is none.
	Runbook string `json:"runbook,omitempty"`
	// Said is the end of the message that another component wrote, "" if it wrote none. Who has no
	// room for the whole message shortens this part.
	Said string `json:"-"`
	// Next is what to do next, "" if the message says it.
	Next string `json:"next,omitempty"`
}

// Rule is the judgement of conditions whose type has a suffix.
type Rule struct {
	Suffix string
	// Expected is the status without a finding. "" means that each status is a finding.
	Expected opv1.ConditionStatus
	Severity Severity
	// Runbook is the name of an alert in small letters.
	Runbook string
}

const (
	suffixDisabled  = "Disabled"
	managementState = "ManagementStateDegraded"
)

// Rules returns the rules, the worst finding first. The first rule whose suffix matches counts.
// While the operator does not reconcile, other conditions may be out of date. The cloud and the
// credentials are often the cause of what other conditions report. docs/conditions.md contains the
// rules.
func Rules() []Rule {
	const yes, no = opv1.ConditionTrue, opv1.ConditionFalse
	return []Rule{
		{managementState, no, Problem, "openstackcsidegraded"},
		{opv1.OperatorStatusTypeAvailable, yes, Problem, "openstackcsiunavailable"},
		{"CloudReachable", yes, Problem, "openstackcsicloudunreachable"},
		{"CredentialsAccepted", yes, Problem, "openstackcsicredentialsnotaccepted"},
		{opv1.OperatorStatusTypeDegraded, no, Problem, "openstackcsidegraded"},
		{opv1.OperatorStatusTypeProgressing, no, Progress, "openstackcsirolloutstuck"},
		{suffixDisabled, "", Warning, ""},
		{"CredentialsExpireSoon", no, Warning, "openstackcsicredentialsexpire"},
		{"CSIAddonsActive", yes, Warning, "openstackcsiaddonsinactive"},
		{"ShareTypesServed", yes, Warning, "openstackcsinotserved"},
		{"SnapshotsServed", yes, Warning, "openstackcsinotserved"},
		{"UserConfigValid", yes, Warning, "openstackcsinotserved"},
		{"Quota", yes, Warning, "openstackcsiquotanearlyfull"},
		{"", yes, Warning, ""},
	}
}

func judge(conditionType string) (Rule, int) {
	all := Rules()
	rank := slices.IndexFunc(all, func(r Rule) bool {
		return strings.HasSuffix(conditionType, r.Suffix)
	})
	return all[rank], rank // the last rule matches every type
}

// SeverityOf returns what a condition reports. The status Unknown of a rollout is a problem.
func SeverityOf(conditionType string, status opv1.ConditionStatus) Severity {
	r, _ := judge(conditionType)
	switch {
	case status == r.Expected:
		return ""
	case r.Severity == Progress && status != opv1.ConditionTrue:
		return Problem
	}
	return r.Severity
}

// Driver returns what the conditions of a ClusterCSIDriver report, the worst first. Each of the
// workloads should have a condition that ends in Available. If there are fewer, the operator is
// still creating the workloads, unless the driver is disabled.
func Driver(driver *opv1.ClusterCSIDriver, workloads int) []Finding {
	if driver.Spec.ManagementState == opv1.Unmanaged {
		return []Finding{{
			Severity: Warning, Type: managementState, Reason: string(opv1.Unmanaged),
			Message: "The operator does not maintain the driver, and other conditions may be out of date. " +
				"Set spec.managementState to Managed to resume",
		}}
	}
	var findings []Finding
	available, disabled := 0, false
	for _, c := range driver.Status.Conditions {
		if Summarizes(c.Type) {
			continue
		}
		disabled = disabled || strings.HasSuffix(c.Type, suffixDisabled)
		if strings.HasSuffix(c.Type, opv1.OperatorStatusTypeAvailable) {
			available++
		}
		if severity := SeverityOf(c.Type, c.Status); severity != "" {
			r, _ := judge(c.Type)
			findings = append(findings, Finding{
				Severity: severity, Type: c.Type, Reason: c.Reason, Message: c.Message,
				Since: c.LastTransitionTime, Runbook: r.Runbook,
			})
		}
	}
	if available < workloads && !disabled {
		findings = append(findings, Finding{
			Severity: Progress, Type: opv1.OperatorStatusTypeAvailable, Reason: ReasonDeploying,
			Message: fmt.Sprintf("The operator has reported the state of %d of %d workloads",
				available, workloads),
			Runbook: "openstackcsirolloutstuck",
		})
	}
	slices.SortStableFunc(findings, compare)
	return findings
}

// compare orders findings: the worst first, and the same findings always in the same order.
func compare(a, b Finding) int {
	_, rankA := judge(a.Type)
	_, rankB := judge(b.Type)
	return cmp.Or(a.Severity.Compare(b.Severity), cmp.Compare(rankA, rankB),
		cmp.Compare(a.Type, b.Type))
}

// SnapshotGrace is how long a snapshot controller may take until it processes a VolumeSnapshot.
const SnapshotGrace = 5 * time.Minute

// IsIgnored reports whether no snapshot controller has processed a VolumeSnapshot. In its first
// pass a controller adds its finalizers. If the VolumeSnapshot is invalid, or its class does not
// exist, the controller writes an error into the status instead.
func IsIgnored(snapshot metav1.Object, now time.Time) bool {
	return now.Sub(snapshot.GetCreationTimestamp().Time) > SnapshotGrace &&
		!slices.ContainsFunc(snapshot.GetFinalizers(), func(finalizer string) bool {
			return strings.HasPrefix(finalizer, "snapshot.storage.kubernetes.io/")
		}) &&
		!slices.ContainsFunc(snapshot.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Subresource == "status"
		})
}

// The types of the conditions that Ready and Summary return. The second and the third exist only on
// Kubernetes, while they are True.
const (
	ConditionReady       = "Ready"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
)

// Summarizes reports whether a condition of this type summarizes others.
func Summarizes(conditionType string) bool {
	return conditionType == ConditionReady || conditionType == ConditionReconciling ||
		conditionType == ConditionStalled
}

// The reasons of Ready that are not those of a finding.
const (
	ReasonAsExpected = "AsExpected"
	// ReasonDeploying means that a workload has no available pod, or is rolled out.
	ReasonDeploying = "Deploying"
	// ReasonDriverDisabled means that the cloud does not offer what the driver needs, or that the
	// administrator does not want the driver.
	ReasonDriverDisabled = "DriverDisabled"
	// reasonUnreachable is the reason of an outage of OpenStack.
	reasonUnreachable = "CloudUnreachable"
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

// Summary returns the conditions Ready, and Reconciling or Stalled, of our kinds on Kubernetes.
// Ready is False exactly while there is one of the others: while something must be waited for, or
// is stalled until a person corrects it. An outage of OpenStack changes nothing that is completed.
func Summary(findings []Finding, stalled *Finding, completed bool) []opv1.OperatorCondition {
	isOutage := func(f Finding) bool { return completed && f.Reason == reasonUnreachable }
	c, other := Ready(slices.DeleteFunc(slices.Clone(findings), isOutage)), ConditionReconciling
	outage := slices.IndexFunc(findings, isOutage)
	switch {
	case stalled != nil:
		other, c = ConditionStalled, ready(opv1.ConditionFalse, stalled.Reason, message(*stalled, 0))
	case c.Status == opv1.ConditionFalse:
	case !completed:
		c = ready(opv1.ConditionFalse, ReasonDeploying, "The operator has not completed the changes")
		if len(findings) > 0 {
			c.Message += "; " + message(findings[0], len(findings)-1)
		}
	case outage >= 0:
		return []opv1.OperatorCondition{
			ready(opv1.ConditionTrue, reasonUnreachable, message(findings[outage], 0)),
		}
	default: // nobody waits for a driver that is not managed
		c.Status = opv1.ConditionTrue
		return []opv1.OperatorCondition{c}
	}
	abnormal := c
	abnormal.Type, abnormal.Status = other, opv1.ConditionTrue
	return []opv1.OperatorCondition{c, abnormal}
}

func ready(status opv1.ConditionStatus, reason, message string) opv1.OperatorCondition {
	return opv1.OperatorCondition{
		Type: ConditionReady, Status: status, Reason: reason, Message: message,
	}
}

// message returns the finding and the number of others in one line, which clients show in a column.
func message(f Finding, more int) string {
	text := strings.TrimPrefix(f.Type+": ", ": ") + strings.ReplaceAll(f.Message, "\n", "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
