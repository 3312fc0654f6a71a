package assets_test

import (
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/patch"
)

// Of OpenShift's API groups only operator.openshift.io is served, for ClusterCSIDrivers.
func TestKustomizationsForKubernetesNeedNothingOfOpenShift(t *testing.T) {
	t.Parallel()
	for driver, fsys := range drivers(t) {
		if companionOf(t, fsys) != "" {
			continue
		}
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			deployments := 0
			installed := installedOnKubernetes(t, fsys)
			for name, text := range installed {
				object := &unstructured.Unstructured{}
				assert.NilError(t, yaml.Unmarshal(text, &object.Object))
				group := object.GroupVersionKind().Group
				if strings.HasSuffix(group, ".openshift.io") && group != "operator.openshift.io" ||
					object.GetKind() == "ClusterRole" && strings.Contains(string(text), "config.openshift.io") {
					t.Errorf("%s needs OpenShift:\n%s", name, text)
				}
				if object.GetKind() != "Deployment" {
					continue
				}
				deployments++
				var deployment appsv1.Deployment
				convert(t, object, &deployment)
				pod := deployment.Spec.Template.Spec
				assert.Check(t, is.Len(pod.NodeSelector, 0), "node selector")
				values := map[string]string{}
				for _, variable := range pod.Containers[0].Env {
					if variable.ValueFrom == nil || variable.ValueFrom.ConfigMapKeyRef == nil {
						continue
					}
					from, config := variable.ValueFrom.ConfigMapKeyRef, corev1.ConfigMap{}
					assert.NilError(t, json.Unmarshal(installed["ConfigMap "+from.Name], &config))
					assert.Check(t, *from.Optional, "OpenShift has no ConfigMap %s", from.Name)
					values[variable.Name] = config.Data[from.Key]
				}
				assert.Check(t, is.DeepEqual(map[string]string{
					"CLUSTER_ID": "kubernetes", "RELEASE_LEASES": "true", "RUN_AS_USER": "1001",
				}, values), "variables")
			}
			assert.Check(t, deployments == 1, "there are %d Deployments, want one", deployments)
		})
	}
}

// installedOnKubernetes returns the manifests of the operator as `kubectl apply -k` changes them.
func installedOnKubernetes(t *testing.T, fsys fs.FS) map[string][]byte {
	t.Helper()
	folder := path.Join(bundle.Folder(flavour.Standalone), "kubernetes")
	manifests := map[string][]byte{}
	for _, from := range []string{path.Join(folder, "../operator"), folder} {
		for kind, objects := range readInstallation(t, fsys, from) {
			for _, object := range objects {
				text, err := object.MarshalJSON()
				assert.NilError(t, err)
				manifests[kind+" "+object.GetName()] = text
			}
		}
	}
	text := manifests["Kustomization "]
	delete(manifests, "Kustomization ")
	var kustomization struct {
		Patches []struct {
			Patch  string                      `json:"patch"`
			Target struct{ Kind, Name string } `json:"target"`
		} `json:"patches"`
	}
	assert.NilError(t, yaml.Unmarshal(text, &kustomization))
	for _, p := range kustomization.Patches {
		deleted := &unstructured.Unstructured{}
		if p.Target.Kind == "" {
			assert.NilError(t, yaml.Unmarshal([]byte(p.Patch), &deleted.Object))
			delete(manifests, deleted.GetKind()+" "+deleted.GetName())
			continue
		}
		name := p.Target.Kind + " " + p.Target.Name
		patched, err := patch.JSON6902(manifests[name], []byte(p.Patch), "")
		assert.NilError(t, err, name)
		manifests[name] = patched
	}
	return manifests
}
