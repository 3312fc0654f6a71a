package operator

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// injectTrustedCA is the label of ConfigMaps that the cluster network operator fills with the CAs
// that a cluster trusts.
const injectTrustedCA = "config.openshift.io/inject-trusted-cabundle"

// trustedCA is the ConfigMap with the trusted CA bundle of the operator's own cluster. On
// HyperShift this is the management cluster: the administrator of a guest cluster must not decide
// which CAs the operator trusts.
type trustedCA struct {
	cluster.Object[corev1.ConfigMap]
	asset bundle.Asset
	name  string
}

// findTrustedCA returns the ConfigMap among the driver's assets, or nil.
func (d *driver) findTrustedCA() (*trustedCA, error) {
	for _, asset := range d.bundle.Select(bundle.Static, flavour.ControlPlane) {
		object, err := metadata(asset)
		if err != nil {
			return nil, err
		}
		if object.Labels[injectTrustedCA] == "true" {
			configMap := d.cluster.ConfigMap(flavour.ControlPlane, object.Namespace, object.Name)
			return &trustedCA{configMap, asset, object.Name}, nil
		}
	}
	return nil, nil
}

// pem returns the certificates, or nil while the ConfigMap is missing or empty.
func (t *trustedCA) pem() []byte {
	found := t.Get()
	if found == nil || found.Data[hook.TrustedCAKey] == "" {
		return nil
	}
	return []byte(found.Data[hook.TrustedCAKey])
}

// trustedCAController returns the controller of the ConfigMap. It runs from the start, because the
// probe of OpenStack needs the content.
func (d *driver) trustedCAController(name string) (factory.Controller, error) {
	if d.trustedCA == nil {
		return nil, nil
	}
	return d.staticResources(name, flavour.ControlPlane, []bundle.Asset{d.trustedCA.asset})
}
