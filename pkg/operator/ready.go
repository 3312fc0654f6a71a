package operator

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// readyController returns the controller of the condition Ready, which summarizes the other
// conditions. It also runs while the operator does not reconcile.
func (d *driver) readyController(name string) (factory.Controller, error) {
	sync := func(ctx context.Context, _ factory.SyncContext) error {
		spec, status, _, err := d.operator.GetOperatorState()
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil { // the spec cannot be decoded, so other controllers report the same
			return d.applyReady(ctx, name, opv1.OperatorCondition{
				Status: opv1.ConditionFalse, Reason: "SyncError", Message: err.Error(),
			})
		}
		found := &opv1.ClusterCSIDriver{}
		found.Spec.OperatorSpec, found.Status.OperatorStatus = *spec, *status
		return d.applyReady(ctx, name, diagnosis.Ready(diagnosis.Driver(found, d.workloads)))
	}
	return factory.New().
		WithInformers(d.operator.Informer()).
		WithSync(sync).
		ToController(name, d.events), nil
}

// maxReason is the maximum length of the reason, which may be that of a condition that somebody in
// the guest cluster wrote.
const maxReason = 128

func (d *driver) applyReady(ctx context.Context, manager string, c opv1.OperatorCondition) error {
	reason := guest.Printable(c.Reason, maxReason)
	return cluster.ApplyConditions(ctx, d.operator, manager,
		cluster.NewCondition(diagnosis.ConditionReady, c.Status, reason, c.Message))
}
