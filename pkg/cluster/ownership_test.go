package cluster

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
)

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
