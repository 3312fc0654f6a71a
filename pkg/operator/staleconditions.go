package operator

import (
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/staleconditions"

	"github.com/openstack-csi/csi-operator/legacy"
	"github.com/openstack-csi/csi-operator/pkg/bundle"
)

// staleConditions returns the controller that removes the conditions that no controller writes any
// more, or nil if there are none: those of earlier releases, and those about CSI-Addons if it is
// not configured any more.
func (d *driver) staleConditions(name string) (factory.Controller, error) {
	generations, err := d.generations()
	if err != nil {
		return nil, err
	}
	addons, err := bundle.LoadCSIAddons(d.Assets, d.cluster.Flavour)
	if err != nil {
		return nil, err
	}
	types := legacy.StaleConditions(generations)
	if d.csiAddons == nil && len(addons.Assets()) > 0 {
		active, degraded := d.csiAddonsConditions()
		types = append(types, active, degraded)
	}
	if len(types) == 0 {
		return nil, nil
	}
	return staleconditions.NewRemoveStaleConditionsController(name, types, d.operator, d.events), nil
}

// generations returns the earlier generations of the operator in this flavour.
func (d *driver) generations() ([]legacy.Generation, error) {
	return legacy.Generations(string(d.Name), d.cluster.Flavour, d.cluster.Namespaces.ControlPlane)
}
