package operator

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// managementStateDegraded is the condition of library-go's controller of the management state.
const managementStateDegraded = "ManagementStateDegraded"

// managementState returns the controller of the condition ManagementStateDegraded. It replaces
// library-go's, whose messages explain neither the effect of a state nor how to leave it.
func (d *driver) managementState(name string) (factory.Controller, error) {
	name = factory.ControllerInstanceName(d.csiDriver, name)
	sync := func(ctx context.Context, _ factory.SyncContext) error {
		spec, _, _, err := d.operator.GetOperatorState()
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		condition := d.managementCondition(spec.ManagementState)
		return cluster.ApplyConditions(ctx, d.operator, name, condition)
	}
	f := factory.New().WithInformers(d.operator.Informer()).WithSync(sync)
	return f.ToController(name, d.events), nil
}

func (d *driver) managementCondition(state opv1.ManagementState) *cluster.Condition {
	ret := cluster.NewCondition(managementStateDegraded, opv1.ConditionFalse, "", "")
	effect := fmt.Sprintf("the operator does not upgrade, repair or configure the driver, and does "+
		"not update other conditions. Set spec.managementState of %s to Managed", d.cluster.Object)
	switch {
	case state == opv1.Managed:
		return ret
	case state == opv1.Unmanaged:
		return ret.WithReason(string(state)).WithMessage("Unmanaged: " + effect + " to resume")
	case state == opv1.Removed:
		return ret.WithStatus(opv1.ConditionTrue).WithReason(string(state)).
			WithMessage("Removed is not supported, because without the driver pods cannot unmount their " +
				"volumes. The driver stays installed; " + effect)
	}
	return ret.WithStatus(opv1.ConditionTrue).WithReason("Unknown").
		WithMessage(fmt.Sprintf("managementState %.32q is not supported. The driver stays installed; %s",
			state, effect))
}
