package manila

import (
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// advice contains the parts of messages about credentials that depend on the flavour.
type advice struct {
	// missing is the advice for missing credentials, wrong the advice for invalid ones.
	missing, wrong string
}

func adviceFor(c *cluster.Cluster) advice {
	if c.Flavour == flavour.HyperShift {
		original := c.Name(flavour.ControlPlane, "Secret", c.Namespaces.ControlPlane, credentialsSecret)
		return advice{
			missing: "the hosted-cluster-config-operator copies it from " + original + ": look at that one",
			wrong: "it is a copy of " + original +
				", which is made of the Secret that the HostedCluster names in " +
				"spec.platform.openstack.identityRef: correct that one",
		}
	}
	return advice{
		missing: "look at CredentialsRequest manila-csi-drivers, or create it with key " + cloudsKey,
		wrong:   "correct it",
	}
}
