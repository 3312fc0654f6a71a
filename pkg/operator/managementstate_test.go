package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/fake"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

func TestManagementStateMessages(t *testing.T) {
	t.Parallel()
	const (
		effect = "the operator does not upgrade, repair or configure the driver, and other conditions keep their last values. " +
			"Set spec.managementState of ClusterCSIDriver x.example to Managed"
		removed = "Removed is not supported, because pods could not unmount their volumes without the driver. The driver stays; "
	)
	for name, test := range map[string]struct {
		state     opv1.ManagementState
		removable bool
		want      opv1.OperatorCondition
	}{
		"managed":            {opv1.Managed, false, condition("ManagementStateDegraded", opv1.ConditionFalse, "AsExpected", "All is well")},
		"unmanaged":          {opv1.Unmanaged, false, condition("ManagementStateDegraded", opv1.ConditionFalse, "Unmanaged", "Unmanaged: "+effect+" to end this")},
		"removed":            {opv1.Removed, false, condition("ManagementStateDegraded", opv1.ConditionTrue, "Removed", removed+effect)},
		"removed, removable": {opv1.Removed, true, condition("ManagementStateDegraded", opv1.ConditionFalse, "AsExpected", "All is well")},
		"force":              {opv1.Force, false, condition("ManagementStateDegraded", opv1.ConditionTrue, "Unknown", `managementState "Force" is not supported. The driver stays; `+effect)},
		"unknown":            {"Perhaps", false, condition("ManagementStateDegraded", opv1.ConditionTrue, "Unknown", `managementState "Perhaps" is not supported. The driver stays; `+effect)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newFakeClient()
			client.spec.ManagementState = test.state
			d := &driver{Driver: plugin.Driver{Name: "x.example", Removable: test.removable}, operator: newConditionWriter(client), events: process().Events}
			controller := d.managementState()
			if err := controller.Sync(t.Context(), factory.NewSyncContext("test", d.events)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]opv1.OperatorCondition{test.want}, client.posted()); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOnlyManagedReconciles has the controllers that library-go would run in the state Force.
func TestOnlyManagedReconciles(t *testing.T) {
	t.Parallel()
	for state, reconciles := range map[opv1.ManagementState]bool{
		opv1.Managed: true, opv1.Unmanaged: false, opv1.Removed: false, opv1.Force: false, "": false,
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			d := assembled(t, flavour.Standalone, plugins()...)[0]
			d.operator.(*conditionWriter).OperatorClientWithFinalizers.(*fakeClient).spec.ManagementState = state
			controllers, _, err := d.gated()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range controllers {
				if err := c.Sync(t.Context(), factory.NewSyncContext("test", d.events)); err != nil {
					t.Fatal(err)
				}
			}
			if writes := created(d.cluster.Side(flavour.Guest).Kube.(*fake.Clientset)); (len(writes) > 0) != reconciles {
				t.Errorf("writes are %v", writes)
			}
		})
	}
}
