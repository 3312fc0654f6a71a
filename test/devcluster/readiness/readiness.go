// Package readiness compares the conditions of a ClusterCSIDriver, and combines them like
// cluster-storage-operator. The integration tests call it.
package readiness

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	opv1 "github.com/openshift/api/operator/v1"
)

// Conditions are the conditions of a ClusterCSIDriver by type.
type Conditions map[string]opv1.OperatorCondition

// Of returns the conditions of a list by type.
func Of(list []opv1.OperatorCondition) Conditions {
	all := Conditions{}
	for _, c := range list {
		all[c.Type] = c
	}
	return all
}

// Has returns nil if the condition has the status, the reason unless it is empty, and a message
// that contains all texts.
func (c Conditions) Has(
	conditionType string, status opv1.ConditionStatus, reason string, texts ...string,
) error {
	found, ok := c[conditionType]
	if !ok {
		return fmt.Errorf("there is no condition %s", conditionType)
	}
	if found.Status != status || reason != "" && found.Reason != reason {
		return fmt.Errorf("condition %s is %s, reason %s (%s); want %s, reason %s",
			conditionType, found.Status, found.Reason, found.Message, status, reason)
	}
	for _, text := range texts {
		if !strings.Contains(found.Message, text) {
			return fmt.Errorf("the message of %s is %q, want it to contain %q",
				conditionType, found.Message, text)
		}
	}
	return nil
}

// WithSuffix returns the conditions whose type has the suffix, sorted by type.
func (c Conditions) WithSuffix(suffix string) []opv1.OperatorCondition {
	var found []opv1.OperatorCondition
	for _, conditionType := range slices.Sorted(maps.Keys(c)) {
		if strings.HasSuffix(conditionType, suffix) {
			found = append(found, c[conditionType])
		}
	}
	return found
}

// haveStatus returns nil if all conditions with the suffix have the status.
func (c Conditions) haveStatus(suffix string, status opv1.ConditionStatus) error {
	return c.none(suffix, func(found opv1.ConditionStatus) bool { return found != status })
}

// NoneTrue returns nil if no condition with the suffix is True.
func (c Conditions) NoneTrue(suffix string) error {
	return c.none(suffix, func(found opv1.ConditionStatus) bool { return found == opv1.ConditionTrue })
}

func (c Conditions) none(suffix string, refused func(opv1.ConditionStatus) bool) error {
	for _, found := range c.WithSuffix(suffix) {
		if refused(found.Status) {
			return fmt.Errorf("%s=%s, reason %s: %s",
				found.Type, found.Status, found.Reason, found.Message)
		}
	}
	return nil
}

// Available returns nil if cluster-storage-operator would report the driver as available, and as
// neither disabled, degraded nor progressing. Each workload has an *Available condition.
func (c Conditions) Available(workloads int) error {
	if found := len(c.WithSuffix(opv1.OperatorStatusTypeAvailable)); found < workloads {
		return fmt.Errorf("there are %d *Available conditions for %d workloads", found, workloads)
	}
	if err := c.haveStatus(opv1.OperatorStatusTypeAvailable, opv1.ConditionTrue); err != nil {
		return err
	}
	if err := c.NoneTrue(opv1.OperatorStatusTypeProgressing); err != nil {
		return err
	}
	if disabled := c.WithSuffix("Disabled"); len(disabled) > 0 {
		return fmt.Errorf("there is condition %s (%s): %s",
			disabled[0].Type, disabled[0].Reason, disabled[0].Message)
	}
	return c.NoneTrue(opv1.OperatorStatusTypeDegraded)
}

// IsOffered returns true if cluster-storage-operator would report the driver as available. optional
// is true for a driver that a cloud may not offer, which is available while it is disabled.
func (c Conditions) IsOffered(optional bool) bool {
	return optional && len(c.WithSuffix("Disabled")) > 0 ||
		len(c.WithSuffix(opv1.OperatorStatusTypeAvailable)) > 0 &&
			c.haveStatus(opv1.OperatorStatusTypeAvailable, opv1.ConditionTrue) == nil
}
