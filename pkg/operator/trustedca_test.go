package operator

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// On HyperShift the guest cluster must not decide which CAs the operator trusts.
func TestTrustedCABundleIsThatOfTheOperatorsCluster(t *testing.T) {
	t.Parallel()
	for f, namespace := range map[flavour.Flavour]string{
		flavour.Standalone: "operands", flavour.HyperShift: "operators",
	} {
		drivers := plugins()
		for i := range drivers {
			drivers[i].Namespace = "operands"
		}
		d := assembled(t, f, drivers...)[0]
		trusted := d.trustedCA
		assert.Check(t, strings.HasPrefix(trusted.Name, "ConfigMap "+namespace+"/"), trusted.Name)
		for _, asset := range slices.Concat(d.staticAssets(flavour.Guest),
			d.staticAssets(flavour.ControlPlane)) {
			assert.Check(t, asset.Name != trusted.asset.Name, "the ConfigMap has a second writer")
		}
		assert.Check(t, trusted.pem() == nil, "without a ConfigMap")
		for _, bundle := range []string{"CA", ""} {
			config := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: trusted.name},
				Data:       map[string]string{"ca-bundle.crt": bundle, "other": "x"},
			}
			assert.NilError(t, trusted.Informer.(cache.SharedIndexInformer).GetIndexer().Add(config))
			got := trusted.pem()
			assert.Check(t, string(got) == bundle && (got == nil) == (bundle == ""), "%q", got)
		}
	}
}
