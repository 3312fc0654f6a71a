//go:build integration

package integration

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The Operator Lifecycle Manager (OLM) creates the objects that the kustomization beside its bundle
// leaves out. Package assets compares both with the manifests that install an operator without OLM.
func TestKubectlBuildsThePrerequisitesOfOLM(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("../../assets/drivers/*/generated/standalone/olm/prerequisites")
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
	program := filepath.Join(shared.kubernetes, "kubectl")
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
