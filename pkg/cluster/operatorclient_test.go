package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
)

// server is an API server with one ClusterCSIDriver, whose status has one writer.
type server struct {
	dynamic.ResourceInterface

	object  *unstructured.Unstructured
	writes  int
	refusal error
}

func (s *server) ApplyStatus(
	_ context.Context, _ string, desired *unstructured.Unstructured, options metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	if s.refusal != nil {
		return nil, s.refusal
	}
	s.writes++
	object := s.object.DeepCopy()
	object.Object["status"] = desired.Object["status"]
	object.SetResourceVersion(strconv.Itoa(s.writes + 1))
	owned := map[string]any{}
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		fields := map[string]any{".": map[string]any{}}
		for field := range c.(map[string]any) {
			fields["f:"+field] = map[string]any{}
		}
		owned[fmt.Sprintf("k:{\"type\":%q}", c.(map[string]any)["type"])] = fields
	}
	raw, invalid := json.Marshal(map[string]any{"f:status": map[string]any{"f:conditions": owned}})
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: options.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: opv1.GroupVersion.String(), Subresource: "status", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(string(raw)),
	}})
	s.object = object
	return object.DeepCopy(), errors.Join(err, invalid)
}

// fixture is a client whose cache contains what the server has after catchUp.
type fixture struct {
	*testing.T
	*server
	client *operatorClient
	clock  *testingclock.FakePassiveClock
	cache  cache.Indexer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		T: t, clock: testingclock.NewFakePassiveClock(time.Unix(0, 0)), server: &server{},
		cache: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
	}
	f.object = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": opv1.GroupVersion.String(), "kind": "ClusterCSIDriver",
		"metadata": map[string]any{"name": "x", "uid": "1", "resourceVersion": "1"},
	}}
	resource := opv1.GroupVersion.WithResource("clustercsidrivers")
	f.client = &operatorClient{
		lister: cache.NewGenericLister(f.cache, resource.GroupResource()), resource: f.server,
		clock: f.clock, name: "x", object: "ClusterCSIDriver x", applied: map[string]appliedStatus{},
		complete: func(*opv1.OperatorSpec) {},
	}
	f.catchUp()
	return f
}

func (f *fixture) catchUp() {
	f.Helper()
	assert.NilError(f, f.cache.Update(f.object))
}

func (f *fixture) apply(status *applyopv1.OperatorStatusApplyConfiguration) {
	f.Helper()
	assert.NilError(f, f.client.ApplyOperatorStatus(f.Context(), "manager", status))
}

func (f *fixture) status() *opv1.OperatorStatus {
	f.Helper()
	_, status, _, err := f.client.GetOperatorState()
	assert.NilError(f, err)
	return status
}

func degraded(status opv1.ConditionStatus) *applyopv1.OperatorStatusApplyConfiguration {
	return applyopv1.OperatorStatus().WithConditions(NewCondition("FooDegraded", status, "R", "m"))
}

// Each step takes place a second after the one before.
func TestTransitionTimeIsThatOfTheLastTransition(t *testing.T) {
	t.Parallel()
	const yes, no = opv1.ConditionTrue, opv1.ConditionFalse
	for name, test := range map[string]struct {
		steps []opv1.ConditionStatus // "" stands for no condition
		// last is the last step that the cache contains.
		last   int
		want   int64
		writes int
	}{
		"same status, old cache":         {[]opv1.ConditionStatus{yes, yes}, -1, 0, 1},
		"same status":                    {[]opv1.ConditionStatus{yes, yes}, 0, 0, 1},
		"other status, old cache":        {[]opv1.ConditionStatus{yes, no, no}, -1, 1, 2},
		"returned status, old cache":     {[]opv1.ConditionStatus{yes, no, yes}, -1, 2, 3},
		"returned status, older cache":   {[]opv1.ConditionStatus{yes, no, yes, yes}, 0, 2, 3},
		"returned status":                {[]opv1.ConditionStatus{yes, no, yes}, 1, 2, 3},
		"returned condition, old cache":  {[]opv1.ConditionStatus{yes, "", yes}, 0, 2, 3},
		"returned condition":             {[]opv1.ConditionStatus{yes, "", yes}, 1, 2, 3},
		"condition that returned before": {[]opv1.ConditionStatus{yes, "", yes, yes}, 2, 2, 3},
	} {
		f := newFixture(t)
		for i, status := range test.steps {
			f.clock.SetTime(time.Unix(int64(i), 0))
			if status == "" {
				f.apply(applyopv1.OperatorStatus())
			} else {
				f.apply(degraded(status))
			}
			if i <= test.last {
				f.catchUp()
			}
		}
		got := f.status().Conditions[0].LastTransitionTime.Unix()
		assert.Check(t, is.Equal(got, test.want), "the step of the transition time, %s", name)
		assert.Check(t, is.Equal(f.writes, test.writes), "writes, %s", name)
	}
}

func TestFailureIsWrittenOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refusal = errors.New("etcdserver: request timed out")
	err := f.client.ApplyOperatorStatus(t.Context(), "manager", degraded(opv1.ConditionTrue))
	assert.Check(t, is.ErrorIs(err, f.refusal))
	f.refusal = nil
	for port := range 3 {
		message := fmt.Sprintf("read tcp 10.0.0.1:4800%d->10.0.0.2:6443: i/o timeout", port)
		f.apply(applyopv1.OperatorStatus().
			WithConditions(NewCondition("FooDegraded", opv1.ConditionTrue, "R", message)))
	}
	assert.Check(t, is.Equal(f.writes, 1), "writes")
}

// library-go updates a workload whose generation differs from that in the status.
func TestGenerationIsKnownBeforeTheCacheContainsIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	generation := func() (all []int64) {
		for _, g := range f.status().Generations {
			all = append(all, g.LastGeneration)
		}
		return all
	}
	for step := int64(1); step < 3; step++ {
		f.apply(applyopv1.OperatorStatus().WithGenerations(applyopv1.GenerationStatus().
			WithGroup("apps").WithResource("deployments").WithNamespace("ns").WithName("foo").
			WithLastGeneration(step)))
		assert.Check(t, is.DeepEqual([]int64{step}, generation()), "generations")
	}
	f.object = f.object.DeepCopy()
	f.object.SetUID("2")
	f.object.SetResourceVersion("9")
	delete(f.object.Object, "status")
	f.catchUp()
	assert.Check(t, is.Len(generation(), 0), "generations of a new ClusterCSIDriver")
}

// The administrator owns the spec, one controller has applied the status, another one updated it.
const owned = `
apiVersion: operator.openshift.io/v1
kind: ClusterCSIDriver
metadata:
  name: x
  managedFields:
  - {manager: admin, operation: Apply, apiVersion: operator.openshift.io/v1, fieldsType: FieldsV1,
     fieldsV1: {"f:spec": {"f:logLevel": {}, "f:managementState": {}}}}
  - {manager: applied, operation: Apply, apiVersion: operator.openshift.io/v1,
     fieldsType: FieldsV1, subresource: status,
     fieldsV1: {"f:status": {"f:conditions": {'k:{"type":"FooDegraded"}': {
       ".": {}, "f:type": {}, "f:status": {}}}}}}
  - {manager: updated, operation: Update, apiVersion: operator.openshift.io/v1,
     fieldsType: FieldsV1, subresource: status,
     fieldsV1: {"f:status": {"f:observedGeneration": {}}}}
spec: {logLevel: Debug, managementState: Managed, operatorLogLevel: Trace}
status:
  observedGeneration: 3
  conditions: [{type: FooDegraded, status: "False", reason: Why}, {type: Other, status: "True"}]
`

func TestExtractStatusReturnsAppliedFields(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{}
	assert.NilError(t, yaml.Unmarshal([]byte(owned), &object.Object))
	for manager, want := range map[string]*applyopv1.OperatorStatusApplyConfiguration{
		"applied": {Conditions: []applyopv1.OperatorConditionApplyConfiguration{
			{Type: ptr.To("FooDegraded"), Status: ptr.To(opv1.ConditionFalse)},
		}},
		"updated": nil, "admin": nil, "nobody": nil,
	} {
		got, err := extractStatus(object, manager)
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(want, got), "status of %s", manager)
	}
	object.Object["status"] = "text"
	_, err := extractStatus(object, "applied")
	assert.Check(t, err != nil, "an invalid status")
}
