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
			missing: "check " + original + ", from which the hosted-cluster-config-operator copies it",
			wrong: "correct the Secret that the HostedCluster names in " +
				"spec.platform.openstack.identityRef, from which HyperShift creates " + original +
				" and this copy",
		}
	}
	return advice{
		missing: "check CredentialsRequest manila-csi-drivers, or create the Secret with key " +
			cloudsKey,
		wrong: "correct it",
	}
}
