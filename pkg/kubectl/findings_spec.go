package kubectl

import (
	"fmt"
	"slices"
	"strings"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
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
