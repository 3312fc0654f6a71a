//go:build integration

package integration

// subject is an operator under test: what differs between the operators.
type subject struct {
	// name is that of its Deployment and of its service account.
	name string
	// program is its file in the folder of programs.
	program string
	// driver is the name of its ClusterCSIDriver.
	driver string
	// operandNamespace is where its workloads are.
	operandNamespace string
	// workloads are their names, the Deployment first.
	workloads []string
	// credentials are the Secrets that the cloud credential operator makes for it: namespace and name.
	credentials [][2]string
	// cloudConfigCopies are the namespaces in which cluster-storage-operator keeps a copy of ConfigMap cloud-provider-config.
	cloudConfigCopies []string
}

func manila() subject {
	return subject{
		name:             operatorName,
		program:          "manila-operator",
		driver:           driverName,
		operandNamespace: operandNamespace,
		workloads:        []string{controllerName, nodeName, nfsNodeName},
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
		program:          "cinder-operator",
		driver:           "cinder.csi.openstack.org",
		operandNamespace: operatorNamespace,
		workloads:        []string{cinderController, cinderNode},
		credentials:      [][2]string{{operatorNamespace, cinderCredentials}},
	}
}

// user is whom the operator is to the API server.
func (s subject) user() string { return "system:serviceaccount:" + operatorNamespace + ":" + s.name }
