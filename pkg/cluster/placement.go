package cluster

import (
	"fmt"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const (
	// DefaultNamespace is where a driver lives that names no other.
	DefaultNamespace = "openshift-cluster-csi-drivers"
	// userConfigNamespace is where administrators of a standalone cluster keep what configures it.
	userConfigNamespace = "openshift-config"
)

// The ConfigMap with the cloud's CA: as an installer makes it, and as HyperShift makes it for a hosted control plane.
const (
	installedCloudConfig = "cloud-provider-config"
	hostedCloudConfig    = "openstack-cloud-config"
)

// Placement says where everything is, resolved once. Nobody else decides where something is.
type Placement struct {
	// Operator is the operator's own namespace, in the cluster that it runs in.
	Operator string
	// Controller is where the driver's controllers run: on HyperShift a namespace of the management cluster.
	Controller string
	// Node is where the driver's node plugins run, and what belongs to them.
	Node string
	// UserConfig is where, on the controller side, those who own the control plane keep what configures its drivers.
	UserConfig string
	// CloudConfig is the name of the ConfigMap in UserConfig that brings the cloud's CA where the credentials do not.
	CloudConfig string
	// Events is where, on the guest side, the operator's events go.
	Events string
}

// Place resolves the places of a driver; driverNamespace "" is DefaultNamespace.
func Place(f flavour.Flavour, operatorNamespace, driverNamespace string) Placement {
	if driverNamespace == "" {
		driverNamespace = DefaultNamespace
	}
	if f == flavour.HyperShift {
		return Placement{
			Operator:    operatorNamespace,
			Controller:  operatorNamespace,
			Node:        driverNamespace,
			UserConfig:  operatorNamespace,
			CloudConfig: hostedCloudConfig,
			Events:      DefaultNamespace,
		}
	}
	return Placement{
		Operator:    operatorNamespace,
		Controller:  driverNamespace,
		Node:        driverNamespace,
		UserConfig:  userConfigNamespace,
		CloudConfig: installedCloudConfig,
		Events:      operatorNamespace,
	}
}

// Namespace returns the operand namespace of a side.
func (p Placement) Namespace(side bundle.Side) string {
	if side == bundle.Controller {
		return p.Controller
	}
	return p.Node
}

// Name names an object in a namespace of a side so that an administrator finds it: where there are two clusters, it says which one.
func (c *Cluster) Name(side bundle.Side, kind, namespace, name string) string {
	object := fmt.Sprintf("%s %s/%s", kind, namespace, name)
	if c.Flavour == flavour.HyperShift && side == bundle.Controller {
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
