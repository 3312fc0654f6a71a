package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/apiserver/jsonpatch"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// SetConditions replaces the conditions of the status. No field manager owns them.
func (o *Operator) SetConditions(tb testing.TB, conditions ...opv1.OperatorCondition) {
	tb.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	assert.NilError(tb, o.updateConditions(tb.Context(), conditions))
}

// SortedConditions returns the conditions, sorted by type and without their transition times.
func (o *Operator) SortedConditions(tb testing.TB) []opv1.OperatorCondition {
	tb.Helper()
	conditions := o.Conditions(tb)
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.Time{}
	}
	slices.SortFunc(conditions,
		func(a, b opv1.OperatorCondition) int { return strings.Compare(a.Type, b.Type) })
	return conditions
}

// Condition returns a condition without its transition time, empty if it does not exist.
func (o *Operator) Condition(tb testing.TB, conditionType string) opv1.OperatorCondition {
	tb.Helper()
	found := v1helpers.FindOperatorCondition(o.SortedConditions(tb), conditionType)
	return ptr.Deref(found, opv1.OperatorCondition{})
}

// RefuseWrites makes the next n writes of the status fail.
func (o *Operator) RefuseWrites(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refusals = n
}

// Writes returns how often the status was written. As with the real client, applying the same
// status again is not a write.
func (o *Operator) Writes() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writes
}

// write counts a write, or refuses it.
func (o *Operator) write() error {
	if o.refusals > 0 {
		o.refusals--
		return errors.New("etcdserver: request timed out")
	}
	o.writes++
	return nil
}

// ApplyOperatorStatus completes conditions like the client of cluster.Connect, and merges into the
// status. Like the API server, it removes the conditions that the field manager applied before and
// does not apply now. A condition keeps its transition time while its status is the same.
func (o *Operator) ApplyOperatorStatus(
	ctx context.Context, manager string, desired *applyopv1.OperatorStatusApplyConfiguration,
) error {
	if !cluster.CompleteStatus(desired) {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, ok := o.applied[manager]; ok && equality.Semantic.DeepEqual(before, desired) {
		return nil
	}
	if err := o.write(); err != nil {
		return err
	}
	_, status, _, err := o.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil {
		return err
	}
	before := status.DeepCopy().Conditions
	if err := o.OperatorClientWithFinalizers.ApplyOperatorStatus(ctx, manager, desired); err != nil {
		return err
	}
	_, status, _, err = o.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil {
		return err
	}
	conditions := slices.DeleteFunc(status.DeepCopy().Conditions, func(c opv1.OperatorCondition) bool {
		return contains(o.applied[manager], c.Type) && !contains(desired, c.Type)
	})
	for i, c := range conditions {
		if !contains(desired, c.Type) {
			continue
		}
		conditions[i].LastTransitionTime = metav1.NewTime(o.Clock.Now())
		if old := v1helpers.FindOperatorCondition(before, c.Type); old != nil && old.Status == c.Status {
			conditions[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	o.applied[manager] = desired
	return o.updateConditions(ctx, conditions)
}

func contains(status *applyopv1.OperatorStatusApplyConfiguration, conditionType string) bool {
	return status != nil && v1helpers.FindApplyCondition(status.Conditions, &conditionType) != nil
}

// PatchOperatorStatus changes the conditions of the status. Field managers lose removed ones.
func (o *Operator) PatchOperatorStatus(ctx context.Context, patch *jsonpatch.PatchSet) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.write(); err != nil {
		return err
	}
	_, status, _, err := o.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil {
		return err
	}
	conditions, err := patched(status, patch)
	if err != nil {
		return err
	}
	for manager, applied := range o.applied {
		if slices.ContainsFunc(status.Conditions, func(c opv1.OperatorCondition) bool {
			return contains(applied, c.Type) && v1helpers.FindOperatorCondition(conditions, c.Type) == nil
		}) {
			delete(o.applied, manager)
		}
	}
	return o.updateConditions(ctx, conditions)
}

// patched returns the conditions without those that the patch removes, each after a test of its
// type. It supports no other patch.
func patched(
	status *opv1.OperatorStatus, patch *jsonpatch.PatchSet,
) ([]opv1.OperatorCondition, error) {
	text, err := patch.Marshal()
	if err != nil {
		return nil, err
	}
	var steps []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(text, &steps); err != nil {
		return nil, err
	}
	conditions := slices.Clone(status.Conditions)
	for pair := range slices.Chunk(steps, 2) {
		i := slices.IndexFunc(conditions, func(c opv1.OperatorCondition) bool {
			return pair[0].Op == "test" && pair[0].Value == c.Type
		})
		path := fmt.Sprintf("/status/conditions/%d", i)
		if len(pair) < 2 || pair[0].Path != path+"/type" || pair[1].Op != "remove" ||
			pair[1].Path != path {
			return nil, fmt.Errorf("patch %s does not remove conditions", text)
		}
		conditions = slices.Delete(conditions, i, i+1)
	}
	return conditions, nil
}

func (o *Operator) updateConditions(
	ctx context.Context, conditions []opv1.OperatorCondition,
) error {
	_, status, version, err := o.OperatorClientWithFinalizers.GetOperatorState()
	if err != nil {
		return err
	}
	status = status.DeepCopy()
	status.Conditions = conditions
	_, err = o.OperatorClientWithFinalizers.UpdateOperatorStatus(ctx, version, status)
	return err
}
