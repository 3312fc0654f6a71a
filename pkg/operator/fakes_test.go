package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/apiserver/jsonpatch"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
)

// fakeClient is a ClusterCSIDriver. As in the API server, an Apply removes what the same field
// manager applied before. As in the real client, an Apply without a change is not sent.
type fakeClient struct {
	v1helpers.OperatorClientWithFinalizers // informer and finalizers

	mu         sync.Mutex
	spec       opv1.OperatorSpec
	conditions map[string]opv1.OperatorCondition
	owned      map[string]map[string]opv1.OperatorCondition
	// refused is how many further writes fail.
	refused int
	// applies and patches are the writes that were sent.
	applies, patches int
}

func newFakeClient() *fakeClient {
	return &fakeClient{
		OperatorClientWithFinalizers: v1helpers.NewFakeOperatorClient(
			&opv1.OperatorSpec{}, &opv1.OperatorStatus{}, nil,
		),
		spec:       opv1.OperatorSpec{ManagementState: opv1.Managed},
		conditions: map[string]opv1.OperatorCondition{},
		owned:      map[string]map[string]opv1.OperatorCondition{},
	}
}

func (c *fakeClient) GetOperatorState() (*opv1.OperatorSpec, *opv1.OperatorStatus, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spec.DeepCopy(), &opv1.OperatorStatus{Conditions: c.list()}, "1", nil
}

func (c *fakeClient) list() []opv1.OperatorCondition {
	var ret []opv1.OperatorCondition
	for _, name := range slices.Sorted(maps.Keys(c.conditions)) {
		ret = append(ret, c.conditions[name])
	}
	return ret
}

func condition(
	name string, status opv1.ConditionStatus, reason, message string,
) opv1.OperatorCondition {
	return opv1.OperatorCondition{Type: name, Status: status, Reason: reason, Message: message}
}

// posted returns all conditions, sorted by type.
func (c *fakeClient) posted() []opv1.OperatorCondition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list()
}

func (c *fakeClient) writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applies + c.patches
}

func (c *fakeClient) refuse() error {
	if c.refused > 0 {
		c.refused--
		return errors.New("etcdserver: request timed out")
	}
	return nil
}

func (c *fakeClient) ApplyOperatorStatus(
	_ context.Context, manager string, status *applyopv1.OperatorStatusApplyConfiguration,
) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	desired := map[string]opv1.OperatorCondition{}
	for _, condition := range status.Conditions {
		desired[*condition.Type] = opv1.OperatorCondition{
			Type: *condition.Type, Status: *condition.Status,
			Reason: ptr.Deref(condition.Reason, ""), Message: ptr.Deref(condition.Message, ""),
		}
	}
	if maps.Equal(desired, c.owned[manager]) {
		return nil
	}
	if err := c.refuse(); err != nil {
		return err
	}
	for name := range c.owned[manager] {
		delete(c.conditions, name)
	}
	maps.Copy(c.conditions, desired)
	c.owned[manager] = desired
	c.applies++
	return nil
}

func (c *fakeClient) PatchOperatorStatus(_ context.Context, patch *jsonpatch.PatchSet) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.refuse(); err != nil {
		return err
	}
	text, err := patch.Marshal()
	if err != nil {
		return err
	}
	var steps []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(text, &steps); err != nil {
		return err
	}
	current := c.list()
	for i, condition := range current {
		path := fmt.Sprintf("/status/conditions/%d", i)
		if len(steps) == 2 && steps[0].Op == "test" && steps[0].Path == path+"/type" &&
			steps[0].Value == condition.Type &&
			steps[1].Op == "remove" &&
			steps[1].Path == path {
			delete(c.conditions, condition.Type)
			for _, owned := range c.owned {
				delete(owned, condition.Type)
			}
			c.patches++
			return nil
		}
	}
	return fmt.Errorf("patch %s does not fit", text)
}
