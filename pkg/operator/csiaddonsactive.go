package operator

import (
	"context"
	"strings"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// csiAddonsInterval is the time between two checks of permissions that are missing. Nothing else
// tells the operator about a grant.
const csiAddonsInterval = time.Minute

// csiAddonsController is the name of the controller that csiAddonsResources returns.
const csiAddonsController = "*CSIAddonsController"

// reasonForbidden is the reason of both conditions while permissions are missing.
const reasonForbidden = "Forbidden"

// csiAddonsConditions returns the types of the conditions that exist only if CSI-Addons is
// configured: the one that csiAddonsActive writes, and the one of csiAddonsResources.
func (d *driver) csiAddonsConditions() (active, degraded string) {
	return d.service() + "CSIAddonsActive",
		d.fullName(csiAddonsController) + opv1.OperatorStatusTypeDegraded
}

// csiAddonsActive returns the controller of the condition that reports whether the operator adds
// CSI-Addons to the driver, or nil if CSI-Addons is not configured.
func (d *driver) csiAddonsActive(name string) (factory.Controller, error) {
	if d.csiAddons == nil {
		return nil, nil
	}
	needed, err := d.csiAddonsPermissions()
	if err != nil {
		return nil, err
	}
	sync := func(ctx context.Context, _ factory.SyncContext) error {
		condition, err := d.csiAddonsCondition(ctx, needed)
		if err != nil {
			// As an error it would be repeated immediately, and several times.
			klog.FromContext(ctx).Error(err, "Failed to read which permissions the operator has")
			return nil
		}
		return cluster.ApplyConditions(ctx, d.operator, name, condition)
	}
	return factory.New().
		WithInformers(append(d.csiAddons.informers(), d.operator.Informer())...).
		WithSync(cluster.WhileManaged(d.operator, sync)).
		ResyncEvery(csiAddonsInterval).
		ToController(name, d.events), nil
}

// csiAddonsCondition reads permissions only if the API server has refused a request: usually it
// sends none.
func (d *driver) csiAddonsCondition(
	ctx context.Context, needed []permission,
) (*cluster.Condition, error) {
	active, degraded := d.csiAddonsConditions()
	_, status, _, err := d.operator.GetOperatorState()
	if err != nil {
		return nil, err
	}
	unreadable := d.csiAddons.watch.forbidden()
	if !unreadable && !d.csiAddons.active() {
		crd := d.cluster.Name(flavour.Guest, "CustomResourceDefinition", "", d.csiAddons.crd.name)
		return cluster.NewCondition(active, opv1.ConditionFalse, "NoCustomResourceDefinition",
			crd+" does not exist, so the operator does not add CSI-Addons to the driver. Install "+
				"CSI-Addons"), nil
	}
	refused := d.csiAddons.forbidden()
	written := v1helpers.FindOperatorCondition(status.Conditions, degraded)
	failed := written != nil &&
		(written.Status == opv1.ConditionTrue || written.Reason == reasonForbidden)
	if len(refused) > 0 || failed {
		missing, err := d.missingPermissions(ctx, needed)
		if err != nil {
			return nil, err
		}
		if len(missing) == 0 { // the informers will retry, or the API server does not use RBAC only
			missing = refused
		}
		if len(missing) > 0 {
			return cluster.NewCondition(active, opv1.ConditionFalse, reasonForbidden,
				"The operator lacks permissions for CSI-Addons: "+strings.Join(missing, "; ")+". "+
					d.grantAdvice()), nil
		}
	}
	return cluster.NewCondition(active, opv1.ConditionTrue, "AsExpected", d.activeMessage()), nil
}

// excuseForbidden changes the condition of csiAddonsResources. While CSI-Addons is active and
// permissions are missing, a failure does not make the driver degraded: the driver works without
// the objects, and csiAddonsActive reports the permissions.
func (d *driver) excuseForbidden(needed []permission) func(context.Context, *cluster.Condition) {
	return func(ctx context.Context, c *cluster.Condition) {
		if ptr.Deref(c.Status, "") != opv1.ConditionTrue || !d.csiAddons.active() {
			return
		}
		if missing, err := d.missingPermissions(ctx, needed); err == nil && len(missing) > 0 {
			c.WithStatus(opv1.ConditionFalse).WithReason(reasonForbidden)
		}
	}
}

// activeMessage says where CSI-Addons is in the driver.
func (d *driver) activeMessage() string {
	if d.cluster.Flavour == flavour.HyperShift {
		return "The operator adds CSI-Addons to the pods on nodes. NetworkFence is not available in a " +
			"guest cluster"
	}
	return "The operator adds CSI-Addons to the pods of the driver"
}

// grantAdvice says which manifest grants the permissions.
func (d *driver) grantAdvice() string {
	if d.settings.ClusterID == "" && d.cluster.Flavour == flavour.Standalone {
		return "Run `oc apply -k assets/csi-addons/openshift` to grant them"
	}
	return "The manifests of the operator's release grant them"
}
