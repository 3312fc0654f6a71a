package operator

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/client-go/kubernetes/fake"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

func TestManagementStateDegradedExplainsTheState(t *testing.T) {
	t.Parallel()
	const (
		effect = "the operator does not upgrade, repair or configure the driver, and does not " +
			"update other conditions. Set spec.managementState of ClusterCSIDriver x.example to Managed"
		removed = "Removed is not supported, because without the driver pods cannot unmount their " +
			"volumes. The driver stays installed; "
	)
	unknown := func(state string) string {
		return `managementState "` + state + `" is not supported. The driver stays installed; ` + effect
	}
	for name, test := range map[string]struct {
		state           opv1.ManagementState
		status          opv1.ConditionStatus
		reason, message string
	}{
		"managed": {opv1.Managed, opv1.ConditionFalse, "AsExpected", "As expected"},
		"unmanaged": {
			opv1.Unmanaged, opv1.ConditionFalse, "Unmanaged",
			"Unmanaged: " + effect + " to resume",
		},
		"removed": {opv1.Removed, opv1.ConditionTrue, "Removed", removed + effect},
		"force":   {opv1.Force, opv1.ConditionTrue, "Unknown", unknown("Force")},
		"unknown": {"Perhaps", opv1.ConditionTrue, "Unknown", unknown("Perhaps")},
	} {
		client := newFakeClient(t)
		setSpec(t, client, opv1.OperatorSpec{ManagementState: test.state})
		d := &driver{
			Driver: plugin.Driver{Name: "x.example"},
			shared: &shared{operator: client, events: process().Events},
		}
		controller, err := d.managementState("ManagementState")
		assert.NilError(t, err)
		err = controller.Sync(t.Context(), factory.NewSyncContext("test", d.events))
		assert.NilError(t, err)
		want := []opv1.OperatorCondition{
			condition("ManagementStateDegraded", test.status, test.reason, test.message),
		}
		assert.Check(t, is.DeepEqual(want, client.SortedConditions(t)), name)
	}
}

// Controllers of library-go also reconcile in the state Force.
func TestControllersWriteOnlyInTheStateManaged(t *testing.T) {
	t.Parallel()
	for state, reconciles := range map[opv1.ManagementState]bool{
		opv1.Managed: true, opv1.Unmanaged: false, opv1.Removed: false, opv1.Force: false, "": false,
	} {
		d := assembled(t, flavour.Standalone, plugins()...)[0]
		setSpec(t, d.operator, opv1.OperatorSpec{ManagementState: state})
		for _, c := range built(t, []*driver{d})[driverNeeded] {
			assert.NilError(t, c.Sync(t.Context(), factory.NewSyncContext("test", d.events)))
		}
		writes := created(d.cluster.Side(flavour.Guest).Kube.(*fake.Clientset))
		assert.Check(t, (len(writes) > 0) == reconciles, "%s: writes are %v", state, writes)
	}
}
