package operator

import (
	"testing"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// newFakeClient returns a fake client of a ClusterCSIDriver in the state Managed.
func newFakeClient(t *testing.T) *clustertest.Operator {
	t.Helper()
	return clustertest.New(t, clustertest.Seed{}).State
}

// setSpec replaces the spec of the ClusterCSIDriver.
func setSpec(t *testing.T, client v1helpers.OperatorClient, spec opv1.OperatorSpec) {
	t.Helper()
	_, _, version, err := client.GetOperatorState()
	if err == nil {
		_, _, err = client.UpdateOperatorSpec(t.Context(), version, &spec)
	}
	assert.NilError(t, err)
}

func condition(
	name string, status opv1.ConditionStatus, reason, message string,
) opv1.OperatorCondition {
	return opv1.OperatorCondition{Type: name, Status: status, Reason: reason, Message: message}
}

// infrastructure returns that of a cluster.
func infrastructure(topology configv1.TopologyMode) []runtime.Object {
	object := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	object.Status.ControlPlaneTopology = topology
	object.Status.InfrastructureName = "cluster-1"
	return []runtime.Object{object}
}
