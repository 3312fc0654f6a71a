package operator

import (
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// servingCertificate returns the name of the Secret with the certificate of a Service. On OpenShift
// the service CA creates it, whose annotation ends like that of the flavour for Kubernetes.
func servingCertificate(annotations map[string]string) string {
	for key, secret := range annotations {
		if strings.HasSuffix(key, "/serving-cert-secret-name") {
			return secret
		}
	}
	return ""
}

// servingCertificates returns the names of the Secrets with certificates of the driver's Services.
func (d *driver) servingCertificates() ([]string, error) {
	var names []string
	for _, asset := range d.bundle.Select(bundle.Static, flavour.ControlPlane) {
		object, err := metadata(asset)
		if err != nil {
			return nil, err
		}
		if name := servingCertificate(object.Annotations); name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}

// commonLabels returns the labels that each object of the driver has: those of its node plugin
// whose keys start with app.kubernetes.io/.
func (d *driver) commonLabels() (map[string]string, error) {
	_, object, err := d.workload(bundle.NodeWorkload, flavour.Guest)
	if err != nil || object == nil {
		return nil, err
	}
	common := maps.Clone(object.Labels)
	maps.DeleteFunc(common, func(key, _ string) bool {
		return !strings.HasPrefix(key, "app.kubernetes.io/")
	})
	return common, nil
}

// metadata returns the name, the namespace, the labels and the annotations of an asset.
func metadata(asset bundle.Asset) (*metav1.PartialObjectMetadata, error) {
	return decode[metav1.PartialObjectMetadata](asset)
}

// failed returns an error about the object of an asset with its name. The API server does not
// always name it, for example not in what admission says.
func (d *driver) failed(
	side flavour.Side, read resourceapply.AssetFunc, asset string, err error,
) error {
	name := asset
	if text, failed := read(asset); failed == nil {
		if o, failed := metadata(bundle.Asset{Name: asset, Data: text}); failed == nil {
			name = d.cluster.Name(side, o.Kind, o.Namespace, o.Name)
		}
	}
	return fmt.Errorf("%s: %w", name, err)
}

// decode decodes the fields of an asset that T has. The generator of assets refuses unknown fields.
func decode[T any](asset bundle.Asset) (*T, error) {
	var object T
	if err := yaml.Unmarshal(asset.Data, &object); err != nil {
		return nil, fmt.Errorf("decoding asset %q: %w", asset.Name, err)
	}
	return &object, nil
}
