package operator

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/client-go/kubernetes/fake"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

func TestManagementStateDegradedExplainsTheState(t *testing.T) {
	t.Parallel()
	const (
		effect = "the operator does not upgrade, repair or configure the driver, and does not " +
			"update other conditions. Set spec.managementState of ClusterCSIDriver x.example to Managed"
		removed = "Removed is not supported, because without the driver pods cannot unmount their " +
			"volumes. The driver stays installed; "
	)
	for state, test := range map[opv1.ManagementState]struct {
		status          opv1.ConditionStatus
		reason, message string
	}{
		opv1.Managed:   {opv1.ConditionFalse, "AsExpected", "As expected"},
		opv1.Unmanaged: {opv1.ConditionFalse, "Unmanaged", "Unmanaged: " + effect + " to resume"},
		opv1.Removed:   {opv1.ConditionTrue, "Removed", removed + effect},
		"Perhaps": {
			opv1.ConditionTrue, "Unknown",
			`managementState "Perhaps" is not supported. The driver stays installed; ` + effect,
		},
	} {
		client := newFakeClient(t)
		setState(t, client, state)
		d := &driver{
			shared: &shared{
				csiDriver: "x.example", operator: client, events: process().Events,
				cluster: &cluster.Cluster{Object: "ClusterCSIDriver x.example"},
			},
		}
		assert.NilError(t, syncer(t, d, d.managementState)())
		want := []opv1.OperatorCondition{
			condition("ManagementStateDegraded", test.status, test.reason, test.message),
		}
		assert.Check(t, is.DeepEqual(want, client.SortedConditions(t)), state)
	}
}

// Controllers of library-go also reconcile in the state Force.
func TestControllersWriteOnlyInTheStateManaged(t *testing.T) {
	t.Parallel()
	for state, reconciles := range map[opv1.ManagementState]bool{
		opv1.Managed: true, opv1.Unmanaged: false, opv1.Removed: false, opv1.Force: false, "": false,
	} {
		d := assembled(t, flavour.Standalone, plugins()...)[0]
		setState(t, d.operator, state)
		for _, c := range built(t, []*driver{d})[driverNeeded] {
			assert.NilError(t, syncOnce(t, d, c))
		}
		writes := created(d.cluster.Side(flavour.Guest).Kube.(*fake.Clientset))
		assert.Check(t, (len(writes) > 0) == reconciles, "%s: writes are %v", state, writes)
	}
}
