package cinder

import (
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// advice contains the parts of messages about credentials that depend on the flavour.
type advice struct {
	// missing is the advice for missing credentials, wrong the advice for invalid ones.
	missing, wrong string
}

func adviceFor(f flavour.Flavour) advice {
	if f == flavour.HyperShift {
		const origin = "the Secret that the HostedCluster names in spec.platform.openstack.identityRef"
		return advice{
			missing: "check " + origin + ", from which the hypershift-operator creates it",
			wrong:   "correct " + origin + ", from which the hypershift-operator creates it",
		}
	}
	return advice{
		missing: "check CredentialsRequest openstack-cinder-csi-driver-operator, " +
			"or create the Secret with key " + cloudsKey,
		wrong: "correct it",
	}
}
