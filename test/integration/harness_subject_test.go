//go:build integration

package integration

import "github.com/openstack-csi/csi-operator/pkg/flavour"

// Names of Manila's operator and its objects.
const (
	operatorName      = "manila-csi-driver-operator"
	operatorNamespace = "openshift-cluster-csi-drivers"
	operandNamespace  = "openshift-manila-csi-driver"
	driverName        = "manila.csi.openstack.org"
	operatorUser      = "system:serviceaccount:" + operatorNamespace + ":" + operatorName
	controllerName    = "openstack-manila-csi-controllerplugin"
	nodeName          = "openstack-manila-csi-nodeplugin"
	nfsNodeName       = "csi-nodeplugin-nfsplugin"
)

// subject describes an operator under test.
type subject struct {
	// name is the name of its Deployment and of its ServiceAccount.
	name string
	// component is its name in leader election and events.
	component string
	// program is its file in the folder of programs.
	program string
	// driver is the name of its ClusterCSIDriver.
	driver string
	// operandNamespace contains its workloads, except for the controllers of a hosted control
	// plane.
	operandNamespace string
	// controllerNamespace contains its Deployment, in the management cluster.
	controllerNamespace string
	// workloads are the names of its workloads. The Deployment is the first.
	workloads []string
	// trustedCA is the ConfigMap with the cluster's trusted CA bundle, certificate the Secret with
	// the serving certificate of the metrics.
	trustedCA, certificate string
	// credentials are the Secrets that cloud-credential-operator creates: namespace and name. The
	// driver reads the last.
	credentials [][2]string
	// cloudConfigCopies are the namespaces to which cluster-storage-operator copies ConfigMap
	// cloud-provider-config.
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
			{operatorNamespace, credentialsSecret},
			{operandNamespace, credentialsSecret},
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

// subjects returns all operators under test.
func subjects() []subject { return []subject{manila(), cinder()} }

func (s subject) isManila() bool { return s.name == operatorName }

// in returns the subject with the namespaces of a cluster.
func (s subject) in(c *testCluster) subject {
	s.controllerNamespace = s.operandNamespace
	if c.flavour == flavour.HyperShift {
		s.controllerNamespace = hostedNamespace
	}
	return s
}

// ofSubject returns the value for Manila's or for Cinder's operator.
func ofSubject[T any](s subject, manila, cinder T) T {
	if s.isManila() {
		return manila
	}
	return cinder
}
