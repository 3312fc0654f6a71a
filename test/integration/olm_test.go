//go:build integration

package integration

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The Operator Lifecycle Manager (OLM) creates the objects that the kustomization beside its bundle
// leaves out. Package assets compares both with the manifests that install an operator without OLM.
func TestKubectlBuildsThePrerequisitesOfOLM(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("../../assets/drivers/*/generated/*/olm/prerequisites")
	assert.Assert(t, err == nil && len(folders) != 0, "no OLM bundles: %v", err)
	for _, folder := range folders {
		manifests, err := filepath.Glob(filepath.Join(folder, "../../operator/*.yaml"))
		assert.NilError(t, err)
		fromOLM := []string{
			"ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "Service", "ServiceAccount",
		}
		var kinds []string
		for _, object := range kustomize(t, folder) {
			kinds = append(kinds, object.GetKind())
		}
		for _, kind := range fromOLM {
			assert.Check(t, !slices.Contains(kinds, kind), "%s contains a %s", folder, kind)
		}
		assert.Check(t, len(kinds) != 0 && len(kinds) < len(manifests)-len(fromOLM),
			"%s contains %d of %d manifests: %q", folder, len(kinds), len(manifests), kinds)
	}
}

// kustomize returns the objects that `kubectl kustomize` prints for a folder.
func kustomize(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	program := filepath.Join(shared.Kubernetes, "kubectl")
	cmd := exec.CommandContext(t.Context(), program, "kustomize", folder)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(output), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

const addonsAssets = "../../assets/csi-addons"

// addonsObjects returns the content of the objects of a kustomization, by kind, namespace and name.
func addonsObjects(t *testing.T, folder string) map[string]map[string]any {
	t.Helper()
	objects := map[string]map[string]any{}
	for _, object := range kustomize(t, filepath.Join(addonsAssets, folder)) {
		objects[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = object.Object
	}
	return objects
}

// TestOLMInstallsCSIAddons compares what OLM creates from the bundles of CSI-Addons, together with
// the prerequisites, with what kubectl installs without OLM.
func TestOLMInstallsCSIAddons(t *testing.T) {
	t.Parallel()
	for install, folder := range map[string]string{
		"install/cinder-manila": "generated/olm", "install/kubernetes": "generated/kubernetes/olm",
	} {
		all := addonsObjects(t, install)
		omitted := maps.Clone(all)
		for name, object := range addonsObjects(t, folder+"/prerequisites") {
			assert.Check(t, is.DeepEqual(all[name], object),
				"the prerequisite %s (-without OLM +with OLM)", name)
			delete(omitted, name)
		}
		assert.Check(t, is.DeepEqual(omitted, fromAddonsBundle(t, folder, omitted)),
			"what OLM creates differs from %s (-without OLM +with OLM)", install)
	}
}

// fromAddonsBundle returns what OLM creates from the bundle. The ClusterServiceVersion contains
// neither the names of Roles and bindings nor the metadata of the Deployment and the
// ServiceAccount: these are from the objects that it replaces.
func fromAddonsBundle(
	t *testing.T, folder string, replaced map[string]map[string]any,
) map[string]map[string]any {
	t.Helper()
	const namespace = " csi-addons-system/"
	const account = namespace + "csi-addons-controller-manager"
	created := map[string]map[string]any{
		"ServiceAccount" + account: replaced["ServiceAccount"+account],
	}
	manifests, err := filepath.Glob(filepath.Join(addonsAssets, folder, "manifests/*.yaml"))
	assert.NilError(t, err)
	var strategy map[string]any
	for _, file := range manifests {
		text, err := os.ReadFile(file)
		assert.NilError(t, err)
		var object unstructured.Unstructured
		assert.NilError(t, yaml.Unmarshal(text, &object))
		if object.GetKind() != "ClusterServiceVersion" {
			created[object.GetKind()+namespace+object.GetName()] = object.Object
			continue
		}
		strategy, _, err = unstructured.NestedMap(object.Object, "spec", "install", "spec")
		assert.NilError(t, err)
	}
	for _, entry := range strategy["deployments"].([]any) {
		name := "Deployment" + namespace + entry.(map[string]any)["name"].(string)
		created[name] = withField(replaced[name], "spec", entry.(map[string]any)["spec"])
	}
	lists := map[string]string{"permissions": "Role", "clusterPermissions": "ClusterRole"}
	for list, kind := range lists {
		for _, entry := range strategy[list].([]any) {
			maps.Copy(created, grantedByOLM(t, kind, entry.(map[string]any), replaced))
		}
	}
	return created
}

// grantedByOLM returns the Role of an entry of a ClusterServiceVersion, and its binding.
func grantedByOLM(
	t *testing.T, kind string, entry map[string]any, replaced map[string]map[string]any,
) map[string]map[string]any {
	t.Helper()
	granted := map[string]map[string]any{}
	for name, role := range replaced {
		if role["kind"] != kind || !cmp.Equal(role["rules"], entry["rules"]) {
			continue
		}
		granted[name] = role
		roleName := role["metadata"].(map[string]any)["name"]
		for name, binding := range replaced {
			to, _ := binding["roleRef"].(map[string]any)
			if to["kind"] == kind && to["name"] == roleName {
				granted[name] = withField(binding, "subjects", []any{map[string]any{
					"kind": "ServiceAccount", "name": entry["serviceAccountName"],
					"namespace": "csi-addons-system",
				}})
			}
		}
	}
	if len(granted) != 2 {
		t.Errorf("the rules %v are those of %d objects, want a %s and its binding",
			entry["rules"], len(granted), kind)
	}
	return granted
}

func withField(object map[string]any, field string, value any) map[string]any {
	changed := maps.Clone(object)
	changed[field] = value
	return changed
}
