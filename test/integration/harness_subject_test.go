//go:build integration

package integration

import "github.com/openstack-csi/csi-operator/pkg/flavour"

// subject is an operator under test: what differs between the operators.
type subject struct {
	// name is that of its Deployment and of its service account.
	name string
	// component is the name under which it leads and reports events.
	component string
	// program is its file in the folder of programs.
	program string
	// driver is the name of its ClusterCSIDriver.
	driver string
	// operandNamespace is where its workloads are, apart from the controllers of a hosted control plane.
	operandNamespace string
	// controllerNamespace is where, in the management cluster, its Deployment is.
	controllerNamespace string
	// workloads are their names, the Deployment first.
	workloads []string
	// trustedCA is the ConfigMap for the CAs that a cluster trusts, certificate the Secret with which the metrics are served.
	trustedCA, certificate string
	// credentials are the Secrets that the cloud credential operator makes for it: namespace and name.
	credentials [][2]string
	// cloudConfigCopies are the namespaces in which cluster-storage-operator keeps a copy of ConfigMap cloud-provider-config.
	cloudConfigCopies []string
}

func manila() subject {
	return subject{
		name:             operatorName,
		component:        "openstack-manila-csi-driver-operator",
		program:          "manila-operator",
		driver:           driverName,
		operandNamespace: operandNamespace,
		workloads:        []string{controllerName, nodeName, nfsNodeName},
		trustedCA:        trustedCABundle,
		certificate:      servingCertificate,
		credentials: [][2]string{
			{operatorNamespace, "openstack-cloud-credentials"},
			{operatorNamespace, "manila-cloud-credentials"},
			{operandNamespace, "manila-cloud-credentials"},
		},
		cloudConfigCopies: []string{operatorNamespace},
	}
}

func cinder() subject {
	return subject{
		name:             "openstack-cinder-csi-driver-operator",
		component:        "openstack-cinder-csi-driver-operator",
		program:          "cinder-operator",
		driver:           "cinder.csi.openstack.org",
		operandNamespace: operatorNamespace,
		workloads:        []string{cinderController, cinderNode},
		trustedCA:        cinderTrustedCA,
		certificate:      cinderCertificate,
		credentials:      [][2]string{{operatorNamespace, cinderCredentials}},
	}
}

// in returns the subject as it is in a cluster.
func (s subject) in(c *devcluster) subject {
	s.controllerNamespace = s.operandNamespace
	if c.flavour == flavour.HyperShift {
		s.controllerNamespace = hostedNamespace
	}
	return s
}
