package kubectl

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// raise makes what stalls the driver a problem, as tools that wait for it do.
func (s *system) raise(f *diagnosis.Finding) {
	for _, c := range s.object.Status.Conditions {
		if c.Type == diagnosis.ConditionStalled && c.Status == opv1.ConditionTrue &&
			strings.HasPrefix(c.Message, f.Type+": ") {
			f.Severity = Problem
		}
	}
}

// unseen returns the problem that an operator which leads has not noticed the last change of the
// spec: it reports each within seconds, unless the API server refuses its requests.
func (s *system) unseen() []diagnosis.Finding {
	seen, last := s.object.Status.ObservedGeneration, s.object.Generation
	isReady := slices.ContainsFunc(s.object.Status.Conditions, func(c opv1.OperatorCondition) bool {
		return c.Type == diagnosis.ConditionReady && c.Status == opv1.ConditionTrue
	})
	if s.guest.onOpenShift() || !isReady || seen >= last || s.leader(s.operatorLease) == "" {
		return nil
	}
	namespace, name, _ := strings.Cut(s.operatorName, "/")
	return []diagnosis.Finding{{
		Severity: Problem, Type: changeUnseen, Reason: changeUnseen, Runbook: "openstackcsidegraded",
		Message: fmt.Sprintf("the operator has not noticed the last change of the spec: it has read "+
			"generation %d of %d. If you have not changed it just now, see its log: kubectl logs "+
			"--namespace=%s deployment/%s", seen, last, namespace, name),
	}}
}

// shared returns the problem that the operator shares its permissions with an installation in
// another namespace, or has lost them to it.
func (s *system) shared(other string) diagnosis.Finding {
	lost, repair, leave := diagnosis.LostPermissions(s.of.operator, s.of.operatorIn, other)
	if s.guest.second(s.of) == other { // only then an operator would be left
		repair += leave
	}
	if s.taker == "" {
		lost = fmt.Sprintf("operator in namespace %s shares its permissions, and all objects without a "+
			"namespace, with the installation in namespace %s", s.of.operatorIn, other)
	}
	return diagnosis.Finding{
		Severity: Problem, Type: otherInstallation, Reason: otherInstallation,
		Message: "the " + lost, Next: repair,
	}
}

// explainRefusal replaces what the API server or admission said in a condition by what that means,
// as for events.
func (s *system) explainRefusal(f *diagnosis.Finding) {
	said := fault.Parse(f.Message)
	if said.Reporter != fault.APIServer || f.Type == diagnosis.TypePods ||
		strings.HasSuffix(f.Message, outOfDate) {
		return
	}
	if said.Names == nil {
		said.Names = map[fault.Noun]string{}
	}
	said.Names["within"], said.Names["again"] = s.of.namespace, s.guest.again(s.of)
	if slices.Contains(diagnosis.PodReasons(), f.Reason) {
		said.Names["maker"] = operatorMakes
	}
	m := meaning.Of(said)
	isOther := said.Names["webhook"] == "" &&
		slices.Contains([]fault.Leaf{fault.NotFound, fault.Exists, fault.Conflict}, said.Leaf)
	if !isOther && m.Stops != "" && m.Next != "" {
		about := regexp.MustCompile(`^[A-Z]\w+ [\w./-]+: `).FindString(f.Message)
		f.Said, f.Message, f.Next = f.Message, about+m.Stops, m.Next
	}
}

// podFinding returns why a workload has too few pods; nil if it has enough.
func (s *system) podFinding(w diagnosis.Workload) *diagnosis.Finding {
	f, unfit := diagnosis.Pods(w), s.unfit[w.Name]
	switch {
	case f == nil && unfit.Text == "":
		return nil
	case f == nil: // a DaemonSet wants no pod on a node that its pods do not select
		return &diagnosis.Finding{
			Severity: Warning, Type: diagnosis.TypePods, Reason: diagnosis.ReasonUnscheduled,
			Message: w.Kind + " " + w.Name + " has no pods: " + unfit.Text, Next: unfit.Next,
		}
	case f.Reason == diagnosis.ReasonUnscheduled && unfit.Text != "":
		f.Message = strings.TrimSuffix(f.Message, f.Said) + unfit.Text
		f.Said, f.Next = "", unfit.Next
	default:
		whole := w.Failure
		for i := range w.Pods {
			whole = cmp.Or(whole, saidBy(&w.Pods[i], f.Reason))
		}
		l := linkOf(*f).meant(f.Reason, whole, s.of.namespace, operatorMakes)
		if f.Next = l.Next; l.topic == meaning.Metadata {
			l = s.elsewhere(l, &w.Pods[0], s.lostNodes)
			f.Message, f.Said, f.Next = l.Text, "", l.Next
		}
	}
	return f
}

// unmanaged returns the problem that nobody serves the volumes of a driver.
func (s *system) unmanaged() diagnosis.Finding {
	return diagnosis.Finding{
		Severity: Problem, Type: volumesUnserved, Reason: string(opv1.Unmanaged),
		Message: s.unserved + ". The driver has no pods, and spec.managementState of " +
			s.guest.nameOf(s.of) + " is Unmanaged",
		Next:    "Set it to Managed, or complete the move: " + version.Page("docs/from-charts.md#move"),
		Runbook: "openstackcsidegraded",
	}
}

// terminating says since when a namespace is being deleted, and what keeps it.
func (s *session) terminating(namespace *corev1.Namespace) string {
	text := fmt.Sprintf("namespace %s has been terminating for %s, and nothing can be created in it "+
		"until it is gone", namespace.Name, s.age(namespace.DeletionTimestamp.Time))
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			text += ". " + strings.TrimRight(c.Message, ". ")
		}
	}
	return text
}

func (s *system) noNamespace() diagnosis.Finding {
	f := diagnosis.Finding{
		Severity: Problem, Type: namespaceGone, Reason: namespaceGone, Runbook: "openstackcsidegraded",
		Message: "namespace " + s.of.namespace + " of the driver does not exist, so volumes cannot be " +
			"mounted, unmounted or deleted",
		Next: s.guest.again(s.of),
	}
	if !s.guest.onOpenShift() {
		f.Next += fmt.Sprintf(". Its Secret with the credentials is lost, too: create it again with "+
			"Helm (--set-file=credentials.clouds=clouds.yaml), or run: kubectl create secret generic %s "+
			"--namespace=%s --from-file=clouds.yaml", s.of.credentials, s.of.namespace)
	}
	if s.namespace != nil {
		f.Message = "the driver ends: " + s.terminating(s.namespace)
		f.Since, f.Next = *s.namespace.DeletionTimestamp, "Wait until it is gone. "+f.Next
	}
	return f
}
