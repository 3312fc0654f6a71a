package cluster

import (
	"fmt"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Name returns the name of an object for messages. On HyperShift it contains the cluster.
func (c *Cluster) Name(side flavour.Side, kind, namespace, name string) string {
	object := fmt.Sprintf("%s %s/%s", kind, namespace, name)
	if c.Flavour == flavour.HyperShift && side == flavour.ControlPlane {
		return object + " of the management cluster"
	}
	return object + c.guestSuffix()
}

// guestSuffix returns the text that follows the name of an object of the guest side in messages.
func (c *Cluster) guestSuffix() string {
	if c.Flavour == flavour.HyperShift {
		return " of the guest cluster"
	}
	return ""
}
