package operator

import (
	"slices"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/staleconditions"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

func (d *driver) staleConditions(name string) (factory.Controller, error) {
	types := d.staleConditionTypes()
	if len(types) == 0 {
		return nil, nil
	}
	return staleconditions.NewRemoveStaleConditionsController(name, types, d.operator, d.events), nil
}

// staleConditionTypes returns the types that the driver plugin lists, and the condition of the
// static resources controller that this flavour does not have. OpenShift's csi-operator has both in
// each flavour.
func (d *driver) staleConditionTypes() []string {
	guest, controlPlane := d.staticAssets(flavour.Guest), d.staticAssets(flavour.ControlPlane)
	stale := slices.Clone(d.StaleConditions)
	switch {
	case len(guest) == 0 && len(controlPlane) > 0:
		stale = append(stale, d.fullName(guestStaticResources)+opv1.OperatorStatusTypeDegraded)
	case len(controlPlane) == 0 && len(guest) > 0:
		stale = append(stale, d.fullName(controlPlaneStaticResources)+opv1.OperatorStatusTypeDegraded)
	}
	return stale
}
