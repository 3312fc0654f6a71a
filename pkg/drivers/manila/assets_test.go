package manila

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

func TestManifestsUseNamesOfPackage(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			loaded, err := bundle.Load(Driver().Assets, f)
			assert.NilError(t, err)
			namespaces := []string{"", "${NAMESPACE}", "${NODE_NAMESPACE}", "${OPERATOR_NAMESPACE}"}
			seen := map[bundle.Role]bool{}
			for _, asset := range loaded.Assets() {
				var object unstructured.Unstructured
				if err := yaml.Unmarshal(asset.Data, &object.Object); err != nil {
					t.Fatalf("decoding %s: %v", asset.Name, err)
				}
				seen[asset.Role] = true
				namespace := object.GetNamespace()
				assert.Check(t, slices.Contains(namespaces, namespace),
					"%s names the namespace %s itself", asset.Name, namespace)
				assert.Check(t, object.GetKind() != "Secret",
					"%s is a Secret; that is the secret sync controller's", asset.Name)
				switch asset.Role {
				case bundle.CSIDriver:
					if object.GetName() != string(Name) {
						t.Errorf("the CSIDriver is %s, want %s", object.GetName(), Name)
					}
				case bundle.SnapshotClass:
					checkSnapshotClass(t, object)
				default:
				}
			}
			assert.Check(t, seen[bundle.CSIDriver] && seen[bundle.SnapshotClass],
				"want a CSIDriver and a VolumeSnapshotClass, have %v", seen)
		})
	}
}

func checkSnapshotClass(t *testing.T, object unstructured.Unstructured) {
	t.Helper()
	parameters, _, err := unstructured.NestedStringMap(object.Object, "parameters")
	assert.NilError(t, err)
	const key = "csi.storage.k8s.io/snapshotter-secret-"
	if object.Object["driver"] != string(Name) || parameters[key+"name"] != loginSecret {
		t.Errorf("the VolumeSnapshotClass is of %v with Secret %s, want %s with %s",
			object.Object["driver"], parameters[key+"name"], Name, loginSecret)
	}
	namespace := strings.ReplaceAll(parameters[key+"namespace"], "${NODE_NAMESPACE}", Namespace)
	assert.Check(t, namespace == Namespace,
		"the VolumeSnapshotClass's Secret is in %s, want %s", namespace, Namespace)
}
