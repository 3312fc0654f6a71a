package kubectl

import (
	"slices"
	"strings"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// joined returns the findings, the worst first, without those that follow from one before them.
// That one names their types.
func joined(all []Finding) []Finding {
	var left []Finding
	follow := map[int][]string{}
	for _, f := range all {
		cause := slices.IndexFunc(left, func(c Finding) bool { return c.explains(f) })
		switch {
		case cause < 0:
			if slices.ContainsFunc(left, func(c Finding) bool {
				return c.Driver != f.Driver && c.Next == f.Next && f.Runbook == runbookAbsent && f.Next != ""
			}) {
				f.Next = "The same step repairs it"
			}
			left = append(left, f)
		case left[cause].Message == f.Message && left[cause].Driver != f.Driver:
			left[cause].Driver = "" // both drivers say the same
		case !slices.Contains(follow[cause], f.Type):
			follow[cause] = append(follow[cause], f.Type)
		}
	}
	for i, types := range follow {
		left[i].Message += ". Also reported as " + strings.Join(types, ", ")
	}
	return left
}

// of returns the driver, nil if there is none. Its workloads have the same names in all flavours.
func (f Finding) of() *driver { return (&cluster{}).findDriver(f.Driver) }

// explains returns whether another finding follows from this one, or says the same.
func (f Finding) explains(other Finding) bool {
	d := other.of()
	said, _, _ := strings.Cut(f.Message, ". ") // then follows what the driver does meanwhile
	switch {
	case f.Message == other.Message:
		return true
	case f.Driver != other.Driver && f.Driver != "" || f.Severity != Problem || d == nil:
		return false
	case f.Type == namespaceGone:
		return other.Type == sidecarWithoutLeader || other.isOfWorkload()
	case f.Type == diagnosis.TypePods && other.Type == sidecarWithoutLeader:
		return strings.Contains(f.Message, d.controller+" ")
	case f.Type == diagnosis.TypePods:
		return other.isOfWorkload() && !other.namesWorkload() && strings.Contains(other.Type,
			"NodeService") != strings.Contains(f.Message, d.controller+" ")
	case f.Type == sidecarWithoutLeader:
		return other.Type == f.Type
	}
	return strings.Contains(other.Message, said)
}

// isOfWorkload returns whether a condition that each workload has reports the finding.
func (f Finding) isOfWorkload() bool {
	return slices.ContainsFunc([]string{
		opv1.OperatorStatusTypeAvailable, opv1.OperatorStatusTypeProgressing,
		opv1.OperatorStatusTypeDegraded,
	}, func(suffix string) bool { return strings.HasSuffix(f.Type, suffix) })
}

// namesWorkload returns whether the message names a workload of the driver.
func (f Finding) namesWorkload() bool {
	d := f.of()
	return d != nil && slices.ContainsFunc(d.workloads(), func(name string) bool {
		return strings.Contains(f.Message, name)
	})
}

// text returns the message. That of a condition which names no object follows the type.
func (f Finding) text() string {
	if f.isOfWorkload() && !f.namesWorkload() {
		return f.Type + ": " + f.Message
	}
	return f.Message
}
