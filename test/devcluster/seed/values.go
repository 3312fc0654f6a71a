package seed

import "slices"

// infrastructureName is the unique name the installer would give the cluster.
const infrastructureName = "devcluster-x7k2p"

// guestRelease is what hosted clusters run; that of the management cluster is another.
const guestRelease = "4.99.0-guest"

// Cloud is what the manifests say about OpenStack.
type Cloud struct {
	// Clouds is the content of clouds.yaml.
	Clouds string
	// CA is the private CA, empty if there is none.
	CA string
	// Region of the services.
	Region string
}

// Values fill the placeholders of manifests.
type Values struct {
	// ClusterName begins the names of nodes.
	ClusterName          string
	InfrastructureName   string
	ControlPlaneTopology string
	// Guest is a hosted cluster, ControlPlaneNamespace that of its control plane.
	// Both are empty if nothing is hosted.
	Guest                 string
	ControlPlaneNamespace string
	// GuestKubeconfig is with what the hosted control plane reaches its cluster.
	GuestKubeconfig string
	// ReleaseVersion is that of a hosted cluster.
	ReleaseVersion string
	// Credentials and CloudConfigs say where the operators need to know the cloud.
	Credentials  []Credential
	CloudConfigs []string
	Cloud        Cloud
	// Operator is the one that a manifest is about; only those of operators have it.
	Operator Operator
}

// credentials are the Secrets that the operators need, each once.
func credentials(operators []Operator) []Credential {
	var all []Credential
	for _, o := range operators {
		for _, one := range o.Credentials {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// hostedCredentials are Secrets of the same names in the namespace of a hosted
// control plane.
func hostedCredentials(operators []Operator, namespace string) []Credential {
	var all []Credential
	for _, one := range credentials(operators) {
		hosted := Credential{Namespace: namespace, Name: one.Name}
		if !slices.Contains(all, hosted) {
			all = append(all, hosted)
		}
	}
	return all
}

// cloudConfigs are the namespaces that have ConfigMap cloud-provider-config: where
// the installer puts it, and where the operators need it.
func cloudConfigs(operators []Operator) []string {
	all := []string{"openshift-config"}
	for _, o := range operators {
		for _, namespace := range o.CloudConfigCopies {
			if !slices.Contains(all, namespace) {
				all = append(all, namespace)
			}
		}
	}
	return all
}
