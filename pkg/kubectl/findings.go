package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// The types of findings that no condition has.
const (
	sidecarWithoutLeader = "SidecarWithoutLeader"
	operatorAbsent       = "OperatorAbsent"
	namespaceGone        = "NamespaceGone"
	otherInstallation    = "OtherInstallation"
	changeUnseen         = "ChangeUnseen"
	volumesUnserved      = "VolumesUnserved"
)

// findings returns what is wrong with the driver, the worst first. In front of the conditions is
// what explains them.
func (s *system) findings() []diagnosis.Finding {
	var findings []diagnosis.Finding
	if s.namespaceGone {
		findings = append(findings, s.noNamespace())
	} else if !s.isLed() {
		findings = append(findings, s.noOperator())
	}
	if s.namespace != nil { // everything else follows from it
		return findings
	}
	switch {
	case s.unserved != "":
		findings = append(findings, s.unmanaged())
	case s.isLed() || s.object.Spec.ManagementState == opv1.Unmanaged: // others have no conditions
		findings = append(findings, diagnosis.Driver(s.object, 1+len(s.of.nodes))...)
	}
	findings = append(s.addPodFindings(findings), s.unseen()...)
	for i := range findings {
		f := &findings[i]
		if f.Reason == diagnosis.ReasonDeploying && f.Type != opv1.OperatorStatusTypeAvailable &&
			!strings.Contains(f.Type, "ServiceController") { // of another release, about a workload
			f.Message += ". No part of this operator maintains this condition. Remove it: kubectl edit " +
				s.guest.argument(s.of) + " --subresource=status"
		}
		s.raise(&findings[i])
		s.explainRefusal(&findings[i])
	}
	for _, sidecar := range s.of.sidecars {
		if f := s.leaderless(sidecar); f != nil {
			findings = append(findings, *f)
		}
	}
	findings = append(findings, s.undone()...)
	if other := s.guest.second(s.of); other != "" && s.taker == "" && s.operator != nil {
		findings = append(findings, s.shared(other))
	}
	slices.SortStableFunc(findings, func(a, b diagnosis.Finding) int {
		return cmp.Or(a.Severity.Compare(b.Severity), cmp.Compare(s.rank(a), s.rank(b)))
	})
	return findings
}

// rank sorts problems: each may explain those that follow.
func (s *system) rank(f diagnosis.Finding) int {
	ofOperator := s.operator != nil && strings.Contains(f.Message, s.operator.Name+" ")
	switch {
	case f.Type == namespaceGone, f.Type == diagnosis.TypePods && ofOperator:
		return 0
	case f.Type == operatorAbsent, f.Type == otherInstallation:
		return 1
	case strings.HasSuffix(f.Type, "CloudReachable"), strings.HasSuffix(f.Type, "CredentialsAccepted"):
		return 2
	case f.Type == diagnosis.TypePods:
		return 3
	case strings.HasSuffix(f.Message, outOfDate):
		return 5
	}
	return 4
}

// addPodFindings adds why pods of the driver and of its operator do not run. It removes what the
// conditions say about the same workload.
func (s *system) addPodFindings(findings []diagnosis.Finding) []diagnosis.Finding {
	all := s.workloads()
	if s.operator != nil {
		all = append(all, diagnosis.NewWorkload(s.operator, s.operatorPods))
	}
	for _, w := range all {
		found := s.podFinding(w)
		of := func(f diagnosis.Finding) bool {
			return slices.Contains(diagnosis.PodReasons(), f.Reason) &&
				strings.Contains(f.Message, w.Kind+" "+w.Name+" ")
		}
		if i := slices.IndexFunc(findings, of); found != nil && i >= 0 {
			found.Since = findings[i].Since
			findings = slices.DeleteFunc(findings, of)
		} else if i >= 0 && w.RolledOut { // the operator cannot write what it sees
			findings[i].Message += fmt.Sprintf(". It has %d of %d pods"+outOfDate, w.Available, w.Wanted)
		}
		if found != nil {
			findings = append(findings, *found)
		}
	}
	return findings
}

// outOfDate ends the message of a condition that the workload itself refutes.
const outOfDate = " now, so this condition is out of date"

// workloads returns the workloads with their pods, the Deployment first.
func (s *system) workloads() []diagnosis.Workload {
	var all []diagnosis.Workload
	if s.controller != nil {
		all = append(all, diagnosis.NewWorkload(s.controller, s.pods))
	}
	for i := range s.nodes {
		w := diagnosis.NewWorkload(&s.nodes[i], s.nodePods)
		w.Failure = s.failures[w.Name]
		all = append(all, w)
	}
	return all
}

// noOperator returns the problem that no process of the operator leads and can work. A deleted
// operator leaves all conditions as they were.
func (s *system) noOperator() diagnosis.Finding {
	if s.taker != "" {
		return s.shared(s.taker)
	}
	f := diagnosis.Finding{
		Severity: Problem, Type: operatorAbsent, Reason: "NoLeader", Runbook: runbookAbsent,
		Message: "the operator does not run, so conditions may be out of date. Check Deployment " +
			s.operatorName,
	}
	if s.operator == nil && !s.hidden["Deployments"] {
		f.Message, f.Next = f.Message+", which does not exist", s.guest.again(s.of)
		if other := s.guest.second(s.of); other != "" {
			f.Next = "The one in namespace " + other + " takes over after some minutes"
		}
	}
	if name, expires := holder(s.operatorLease); name != "" {
		f.Since = metav1.NewTime(expires)
	}
	return f
}

// holder returns who holds a Lease, and when the Lease expires. The holder is "" if the Lease is
// released or does not exist.
func holder(lease *coordinationv1.Lease) (string, time.Time) {
	if lease == nil || lease.Spec.HolderIdentity == nil || lease.Spec.RenewTime == nil ||
		lease.Spec.LeaseDurationSeconds == nil {
		return "", time.Time{}
	}
	length := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	return *lease.Spec.HolderIdentity, lease.Spec.RenewTime.Add(length)
}

// leader returns the holder of a Lease that has not expired.
func (s *session) leader(lease *coordinationv1.Lease) string {
	name, expires := holder(lease)
	if s.clock.Now().Before(expires) {
		return name
	}
	return ""
}

// leaderless returns a problem if no process of a sidecar leads. There is none before the driver is
// deployed, or if the Leases are not visible.
func (s *system) leaderless(sidecar diagnosis.Sidecar) *diagnosis.Finding {
	hosted := s.hidden[hiddenControlPlane]
	if s.hidden["Leases"] || len(s.nodes) == 0 ||
		!hosted && !s.hidden["Deployments"] && s.controller == nil {
		return nil
	}
	none := fmt.Sprintf("no %s leads, so %s", sidecar, map[diagnosis.Sidecar]string{
		diagnosis.Provisioner: "new claims wait", diagnosis.Attacher: "pods with new attachments wait",
		diagnosis.Resizer: "claims do not grow", diagnosis.Snapshotter: "snapshots wait",
	}[sidecar])
	f := &diagnosis.Finding{
		Severity: Problem, Type: sidecarWithoutLeader, Reason: "NoLeader",
		Runbook: "openstackcsisidecarwithoutleader",
	}
	lease := s.leases[sidecar]
	name, expires := holder(lease)
	switch {
	case lease == nil:
		f.Message = none + ": its Lease does not exist"
	case name == "":
		f.Message = none + ": Lease " + lease.Name + " is free"
	case !s.clock.Now().Before(expires):
		f.Since = metav1.NewTime(expires)
		f.Message = fmt.Sprintf("%s: Lease %s expired %s ago", none, lease.Name, s.age(expires))
	case !hosted && !s.hidden["Pods"] && !slices.Contains(namesOf(s.pods), name):
		f.Since = metav1.NewTime(lease.Spec.RenewTime.Time)
		f.Message = fmt.Sprintf("%s: Lease %s belongs to pod %s, which is gone. The Lease is free in %s",
			none, lease.Name, name, duration.HumanDuration(-s.clock.Since(expires)))
	default:
		return nil
	}
	return f
}

// condition returns the condition of the driver whose type ends in suffix.
func (s *system) condition(suffix string) *opv1.OperatorCondition {
	for i, c := range s.object.Status.Conditions {
		if strings.HasSuffix(c.Type, suffix) {
			return &s.object.Status.Conditions[i]
		}
	}
	return nil
}

func explainDriver(ctx context.Context, q question) *Explanation {
	d := q.guest.findDriver(q.name)
	if d == nil {
		q.err = usage("%s/%s: only those of OpenStack are known", q.kind, q.name)
		return nil
	}
	sys := q.system(ctx, *d)
	switch {
	case sys == nil && q.guest.unseen():
		q.err = fmt.Errorf("%s is not visible", q.guest.nameOf(*d))
		return nil
	case sys == nil:
		return &Explanation{State: "gone", Chain: []Link{q.goneLink(d.name)}}
	}
	state, links := "not ready", sys.driverLinks()
	// The operator sees less than this command, such as the Leases of the sidecars.
	if c := sys.condition("Ready"); c != nil && c.Status == "True" && causeOf(links) == nil {
		state = "ready for " + q.age(c.LastTransitionTime.Time)
	}
	return &Explanation{State: state, Chain: links}
}

func (s *system) driverLinks() []Link {
	var links []Link
	stopped := false
	for _, f := range s.findings() {
		l := linkOf(f)
		switch {
		case f.Type == diagnosis.TypePods:
			l = s.linkOf(f)
		case strings.HasSuffix(f.Type, "CloudReachable"),
			strings.HasSuffix(f.Type, "CredentialsAccepted"):
			l = s.advised(l)
		case f.Type == sidecarWithoutLeader && stopped: // it follows from the pods
			l = also(l)
		}
		stopped = stopped || f.Type == diagnosis.TypePods && strings.Contains(f.Message, s.of.controller)
		if !f.Since.IsZero() && f.Type != diagnosis.TypePods {
			l.Text = fmt.Sprintf("%s, for %s: %s", f.Type, s.age(f.Since.Time), l.Text)
		}
		links = append(links, l)
	}
	if causeOf(links) == nil {
		links = append(links, s.cloudLinks(meaning.Unknown, false)...)
	}
	if s.controller != nil {
		links = append(links, s.controllerLink())
	}
	for i := range s.nodes {
		links = append(links, s.workloadLink(&s.nodes[i], nil))
	}
	if s.hidden[hiddenControlPlane] {
		links = append(links, linkf(NotVisible, "the pods of the hosted control plane"))
	}
	return links
}

func (s *system) controllerLink() Link {
	return s.workloadLink(s.controller, templatesOfReplicaSets(s.controller, s.replicaSets))
}
