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

// owned returns a ClusterCSIDriver with fields of several managers: the administrator, and two
// controllers that apply status.
const owned = `
apiVersion: operator.openshift.io/v1
kind: ClusterCSIDriver
metadata:
  name: x
  managedFields:
  - {manager: admin, operation: Apply, apiVersion: operator.openshift.io/v1, fieldsType: FieldsV1,
     fieldsV1: {"f:spec": {"f:logLevel": {}, "f:managementState": {}}}}
  - {manager: one, operation: Apply, apiVersion: operator.openshift.io/v1, fieldsType: FieldsV1,
     subresource: status,
     fieldsV1: {"f:status": {"f:conditions": {'k:{"type":"OneDegraded"}': {
       ".": {}, "f:type": {}, "f:status": {}}}}}}
  - {manager: two, operation: Apply, apiVersion: operator.openshift.io/v1, fieldsType: FieldsV1,
     subresource: status,
     fieldsV1: {"f:status": {"f:conditions": {'k:{"type":"TwoDegraded"}': {
       ".": {}, "f:type": {}, "f:status": {}, "f:reason": {}}}}}}
  - {manager: three, operation: Update, apiVersion: operator.openshift.io/v1, fieldsType: FieldsV1,
     subresource: status,
     fieldsV1: {"f:status": {"f:observedGeneration": {}}}}
spec: {logLevel: Debug, managementState: Managed, operatorLogLevel: Trace}
status:
  observedGeneration: 3
  conditions:
  - {type: OneDegraded, status: "False"}
  - {type: TwoDegraded, status: "True", reason: Why}
`

func ownedDriver(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	assert.NilError(t, yaml.Unmarshal([]byte(owned), &object.Object))
	return object
}

func TestExtractStatusReturnsAppliedFields(t *testing.T) {
	t.Parallel()
	for manager, want := range map[string]*applyopv1.OperatorStatusApplyConfiguration{
		"one": {Conditions: []applyopv1.OperatorConditionApplyConfiguration{
			{Type: ptr.To("OneDegraded"), Status: ptr.To(opv1.ConditionFalse)},
		}},
		"two": {Conditions: []applyopv1.OperatorConditionApplyConfiguration{
			{Type: ptr.To("TwoDegraded"), Status: ptr.To(opv1.ConditionTrue), Reason: ptr.To("Why")},
		}},
		"three":  nil, // it updated, but applied nothing
		"admin":  nil,
		"nobody": nil,
	} {
		got, err := extractStatus(ownedDriver(t), manager)
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(want, got), "status of %s", manager)
	}
}

func TestExtractReturnsErrorForInvalidObjects(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "x"}, "spec": "text", "status": "text",
	}}
	if _, err := extractStatus(object, "one"); err == nil {
		t.Error("status: got no error")
	}
}
