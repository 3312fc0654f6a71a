package flavour

import "cmp"

const (
	// DefaultNamespace contains every driver that does not name a namespace of its own.
	DefaultNamespace = "openshift-cluster-csi-drivers"
	// userConfigNamespace contains the administrator's configuration of a standalone cluster.
	userConfigNamespace = "openshift-config"
	// monitoringNamespace contains the Prometheus of OpenShift.
	monitoringNamespace = "openshift-monitoring"
)

// The ConfigMap with the CA of the cloud, as the installer and as HyperShift name it.
const (
	installedCloudConfig = "cloud-provider-config"
	hostedCloudConfig    = "openstack-cloud-config"
)

// Namespaces contains every namespace that an operator uses. No other code decides where an
// object lives.
type Namespaces struct {
	// Operator is the operator's own namespace, on the control plane side.
	Operator string
	// ControlPlane contains the driver's Deployment and what belongs to it.
	ControlPlane string
	// Guest contains the driver's DaemonSets and what belongs to them.
	Guest string
	// UserConfig contains, on the control plane side, the ConfigMaps of the administrator; "" if the
	// operator's object contains the configuration.
	UserConfig string
	// CloudConfig is the name of the ConfigMap in UserConfig that contains the CA of the cloud
	// for credentials without one, "" if there is none.
	CloudConfig string
	// Events contains, on the guest side, the operator's events.
	Events string
	// Monitoring contains, on the guest side, the Prometheus of the cluster; "" if anybody may own it.
	Monitoring string
}

// Namespaces returns the namespaces of an operator and its driver, by default DefaultNamespace.
func (f Flavour) Namespaces(operator, driver string) Namespaces {
	driver = cmp.Or(driver, DefaultNamespace)
	switch f {
	case Kubernetes: // one namespace, whatever its name is, and the CA is in the driver Secret
		return Namespaces{
			Operator: operator, ControlPlane: operator, Guest: operator, Events: operator,
		}
	case HyperShift:
		return Namespaces{
			Operator: operator, ControlPlane: operator, Guest: driver,
			UserConfig: operator, CloudConfig: hostedCloudConfig, Events: DefaultNamespace,
			Monitoring: monitoringNamespace,
		}
	}
	return Namespaces{
		Operator: operator, ControlPlane: driver, Guest: driver,
		UserConfig: userConfigNamespace, CloudConfig: installedCloudConfig, Events: operator,
		Monitoring: monitoringNamespace,
	}
}

// On returns the namespace of the driver's objects on a side.
func (n Namespaces) On(side Side) string {
	if side == ControlPlane {
		return n.ControlPlane
	}
	return n.Guest
}
