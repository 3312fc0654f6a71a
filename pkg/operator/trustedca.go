package operator

import (
	"bytes"
	"fmt"
	"slices"

	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const (
	// injectTrustedCA is a label of ConfigMaps for the cluster network operator, which fills them.
	injectTrustedCA = "config.openshift.io/inject-trusted-cabundle"
	// trustedCAKey is the key that it fills.
	trustedCAKey = "ca-bundle.crt"
)

// trustedCA is the ConfigMap with the CAs that the cluster of the operator trusts: on HyperShift the management cluster, never
// the hosted one, whose administrator must not decide whom the operator trusts.
type trustedCA struct {
	asset           bundle.Asset
	namespace, name string
	configMaps      coreinformers.ConfigMapInformer
	// seen is what changed saw last.
	seen []byte
}

// findTrustedCA finds the ConfigMap among the driver's assets, where its name is defined; nil is none.
func (d *driver) findTrustedCA() (*trustedCA, error) {
	for _, asset := range d.bundle.Select(bundle.Static, flavour.ControlPlane) {
		object, err := metadata(asset)
		if err != nil {
			return nil, err
		}
		if object.Labels[injectTrustedCA] == "true" {
			return newTrustedCA(d.cluster, asset, object.Namespace, object.Name), nil
		}
	}
	return nil, nil
}

func newTrustedCA(c *cluster.Cluster, asset bundle.Asset, namespace, name string) *trustedCA {
	return &trustedCA{
		asset: asset, namespace: namespace, name: name,
		configMaps: c.Side(flavour.ControlPlane).Named.For(namespace, name).Core().V1().ConfigMaps(),
	}
}

// pem returns the certificates, nothing before the ConfigMap is there and filled.
func (t *trustedCA) pem() []byte {
	found, err := t.configMaps.Lister().ConfigMaps(t.namespace).Get(t.name)
	if err != nil { // a cache has no error but that it is missing
		return nil
	}
	return []byte(found.Data[trustedCAKey])
}

// changed tells whether the certificates are others than at the last call. Nothing is what they are before the first.
func (t *trustedCA) changed() bool {
	if t == nil {
		return false
	}
	before := t.seen
	t.seen = t.pem()
	return !bytes.Equal(before, t.seen)
}

// informers tell of changes of the ConfigMap.
func (t *trustedCA) informers() []factory.Informer {
	if t == nil {
		return nil
	}
	return []factory.Informer{t.configMaps.Informer()}
}

// trustedCAController keeps the ConfigMap from the start, whatever the gate says: the operator needs its content to ask the
// cloud. The other static assets leave it to this controller.
func (d *driver) trustedCAController() ([]factory.Controller, error) {
	if d.trusted == nil {
		return nil, nil
	}
	controller, err := d.staticController(staticGroup{"TrustedCAController", flavour.ControlPlane, []bundle.Asset{d.trusted.asset}})
	if err != nil {
		return nil, fmt.Errorf("making the controller of the trusted CAs: %w", err)
	}
	return []factory.Controller{controller}, nil
}

// gatedAssets are all but the one that is not behind the gate.
func (d *driver) gatedAssets() []bundle.Asset {
	return slices.DeleteFunc(d.bundle.Assets(), func(a bundle.Asset) bool { return d.trusted != nil && a.Name == d.trusted.asset.Name })
}
