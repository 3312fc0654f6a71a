package operator

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// managementStateDegraded is the type that library-go's controller of the management state writes.
const managementStateDegraded = "ManagementStateDegraded"

// whileManaged returns sync, which does nothing while the operator does not reconcile.
func (d *driver) whileManaged(sync factory.SyncFunc) factory.SyncFunc {
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		if managed, err := cluster.Managed(d.operator); err != nil || !managed {
			return err
		}
		return sync(ctx, syncCtx)
	}
}

// managementState returns the controller of the condition ManagementStateDegraded. library-go's says neither what a state does nor
// how to leave it.
func (d *driver) managementState() factory.Controller {
	name := factory.ControllerInstanceName(string(d.Name), "ManagementState")
	return factory.New().
		WithInformers(d.operator.Informer()).
		WithSync(func(ctx context.Context, _ factory.SyncContext) error {
			spec, _, _, err := d.operator.GetOperatorState()
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			return d.operator.ApplyOperatorStatus(ctx, name, applyopv1.OperatorStatus().WithConditions(d.managementCondition(spec.ManagementState)))
		}).
		ToController(name, d.events)
}

func (d *driver) managementCondition(state opv1.ManagementState) *applyopv1.OperatorConditionApplyConfiguration {
	ret := applyopv1.OperatorCondition().WithType(managementStateDegraded).WithStatus(opv1.ConditionFalse)
	effect := fmt.Sprintf("the operator does not upgrade, repair or configure the driver, and other conditions keep their last values. "+
		"Set spec.managementState of ClusterCSIDriver %s to Managed", d.Name)
	switch {
	case state == opv1.Managed, state == opv1.Removed && d.Removable:
		return ret
	case state == opv1.Unmanaged:
		return ret.WithReason(string(state)).WithMessage("Unmanaged: " + effect + " to end this")
	case state == opv1.Removed:
		return ret.WithStatus(opv1.ConditionTrue).WithReason(string(state)).
			WithMessage("Removed is not supported, because pods could not unmount their volumes without the driver. The driver stays; " + effect)
	}
	return ret.WithStatus(opv1.ConditionTrue).WithReason("Unknown").
		WithMessage(fmt.Sprintf("managementState %.32q is not supported. The driver stays; %s", state, effect))
}
