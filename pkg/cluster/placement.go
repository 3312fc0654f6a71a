package cluster

import (
	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const (
	// DefaultNamespace is where a driver lives that names no other.
	DefaultNamespace = "openshift-cluster-csi-drivers"
	// UserConfigNamespace is where administrators keep what configures the cluster.
	UserConfigNamespace = "openshift-config"
)

// Placement is every namespace, resolved once. Nobody else decides where something is.
type Placement struct {
	// Operator is the operator's own namespace.
	Operator string
	// Controller is where the driver's controllers run: on HyperShift a namespace of the management cluster.
	Controller string
	// Node is where the driver's node plugins run, and what belongs to them.
	Node string
}

// Place resolves the namespaces of a driver; driverNamespace "" is DefaultNamespace.
func Place(f flavour.Flavour, operatorNamespace, driverNamespace string) Placement {
	if driverNamespace == "" {
		driverNamespace = DefaultNamespace
	}
	p := Placement{Operator: operatorNamespace, Controller: driverNamespace, Node: driverNamespace}
	if f == flavour.HyperShift {
		p.Controller = operatorNamespace
	}
	return p
}

// Namespace returns the operand namespace of a side.
func (p Placement) Namespace(side bundle.Side) string {
	if side == bundle.Controller {
		return p.Controller
	}
	return p.Node
}
