package cluster

import (
	"fmt"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Name names an object in a namespace of a side so that an administrator finds it: where there are two clusters, it says which one.
func (c *Cluster) Name(side flavour.Side, kind, namespace, name string) string {
	object := fmt.Sprintf("%s %s/%s", kind, namespace, name)
	if c.Flavour == flavour.HyperShift && side == flavour.ControlPlane {
		return object + " of the management cluster"
	}
	return object + c.place()
}

// place is what the name of a guest's object is followed by.
func (c *Cluster) place() string {
	if c.Flavour == flavour.HyperShift {
		return " of the hosted cluster"
	}
	return ""
}
