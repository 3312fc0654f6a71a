package operator

import (
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/staleconditions"

	"github.com/openstack-csi/csi-operator/legacy"
)

// staleConditions returns the controller that removes the conditions that no controller writes any
// more, those of earlier releases, or nil if there are none.
func (d *driver) staleConditions(name string) (factory.Controller, error) {
	generations, err := d.generations()
	if err != nil {
		return nil, err
	}
	types := legacy.StaleConditions(generations)
	if len(types) == 0 {
		return nil, nil
	}
	return staleconditions.NewRemoveStaleConditionsController(name, types, d.operator, d.events), nil
}

// generations returns the earlier generations of the operator in this flavour.
func (d *driver) generations() ([]legacy.Generation, error) {
	return legacy.Generations(string(d.Name), d.cluster.Flavour, d.cluster.Namespaces.ControlPlane)
}
