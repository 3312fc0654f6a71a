package assets_test

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

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
			for name, text := range installedOnKubernetes(t, fsys) {
				object := &unstructured.Unstructured{}
				if err := yaml.Unmarshal(text, &object.Object); err != nil {
					t.Fatal(err)
				}
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
				releases := corev1.EnvVar{Name: "RELEASE_LEASES", Value: "true"}
				if !slices.Contains(pod.Containers[0].Env, releases) {
					t.Errorf("sidecars would keep their Leases: environment %v", pod.Containers[0].Env)
				}
				if !slices.Contains(pod.Containers[0].Args, "--cluster-id=kubernetes") ||
					len(pod.NodeSelector) > 0 {
					t.Errorf("the operator would look for OpenShift: args %q, node selector %v",
						pod.Containers[0].Args, pod.NodeSelector)
				}
			}
			if deployments != 1 {
				t.Errorf("there are %d Deployments, want one", deployments)
			}
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
				if err != nil {
					t.Fatal(err)
				}
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
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		t.Fatal(err)
	}
	for _, p := range kustomization.Patches {
		deleted := &unstructured.Unstructured{}
		if p.Target.Kind == "" {
			if err := yaml.Unmarshal([]byte(p.Patch), &deleted.Object); err != nil {
				t.Fatal(err)
			}
			delete(manifests, deleted.GetKind()+" "+deleted.GetName())
			continue
		}
		name := p.Target.Kind + " " + p.Target.Name
		patched, err := patch.JSON6902(manifests[name], []byte(p.Patch), "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		manifests[name] = patched
	}
	return manifests
}
