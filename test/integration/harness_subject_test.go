//go:build integration

package integration

import (
	"slices"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

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
	fixtures.Operator

	// controllerNamespace contains its Deployment, in the management cluster.
	controllerNamespace string
	// trustedCA is the ConfigMap with the cluster's trusted CA bundle, certificate the Secret with
	// the serving certificate of the metrics.
	trustedCA, certificate string
}

func manila() subject {
	return subject{
		Operator:    shared.operators["manila"],
		trustedCA:   trustedCABundle,
		certificate: servingCertificate,
	}
}

func cinder() subject {
	return subject{
		Operator:    shared.operators["cinder"],
		trustedCA:   cinderTrustedCA,
		certificate: cinderCertificate,
	}
}

// subjects returns all operators under test.
func subjects() []subject { return []subject{manila(), cinder()} }

func (s subject) isManila() bool { return s.Driver == "manila" }

func (s subject) in(c *testCluster) subject {
	s.controllerNamespace = s.OperandNamespace
	if c.isHosted() {
		s.controllerNamespace = hostedNamespace
		hosted := c.running.Environments()[0].Operators
		s.Operator = hosted[slices.IndexFunc(hosted, func(o fixtures.Operator) bool {
			return o.Driver == s.Driver
		})]
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
