package assets_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/patch"
)

// olmBundle is a folder with the OLM bundle of an operator.
type olmBundle struct {
	fs.FS
	manifests installation
	strategy  olmStrategy
}

// olmStrategy is the field spec.install.spec of a ClusterServiceVersion.
type olmStrategy struct {
	Deployments []struct {
		Name string         `json:"name"`
		Spec map[string]any `json:"spec"`
	} `json:"deployments"`
	Permissions        []olmPermissions `json:"permissions"`
	ClusterPermissions []olmPermissions `json:"clusterPermissions"`
}

type olmPermissions struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

// eachOLMBundle runs a test for the operator of each leading driver.
func eachOLMBundle(t *testing.T, test func(t *testing.T, i installation, b olmBundle)) {
	t.Helper()
	for driver, fsys := range leading(t) {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			folder := bundle.Folder(flavour.Standalone)
			b := readOLMBundle(t, fsys, path.Join(folder, "olm"))
			test(t, readInstallation(t, fsys, path.Join(folder, "operator")), b)
		})
	}
}

func readOLMBundle(t *testing.T, fsys fs.FS, folder string) olmBundle {
	t.Helper()
	sub, err := fs.Sub(fsys, folder)
	assert.NilError(t, err)
	b := olmBundle{FS: sub, manifests: readInstallation(t, sub, "manifests")}
	strategy, _, err := unstructured.NestedMap(
		b.manifests["ClusterServiceVersion"][0].Object, "spec", "install", "spec")
	assert.NilError(t, err)
	convert(t, &unstructured.Unstructured{Object: strategy}, &b.strategy)
	return b
}

// read decodes a file of the bundle.
func (b olmBundle) read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := fs.ReadFile(b, file)
	assert.NilError(t, err)
	assert.NilError(t, yaml.Unmarshal(text, into), file)
}

// OLM creates the Deployment, the ServiceAccount and the permissions of the ClusterServiceVersion,
// and the other manifests of the bundle, in the namespace of the operator. The administrator
// applies the prerequisites. The Deployment is for all clusters, and only differs in that.
func TestOLMInstallsWhatTheKustomizationInstalls(t *testing.T) {
	t.Parallel()
	eachOLMBundle(t, func(t *testing.T, i installation, b olmBundle) {
		byOLM := b.prerequisites(t, i)
		for kind, objects := range b.manifests {
			if kind != "ClusterServiceVersion" {
				byOLM[kind] = append(byOLM[kind], objects...)
			}
		}
		b.install(byOLM, i["Deployment"][0].GetNamespace())
		for _, object := range []*unstructured.Unstructured{i["Deployment"][0], byOLM["Deployment"][0]} {
			template := object.Object["spec"].(map[string]any)["template"].(map[string]any)
			pod := template["spec"].(map[string]any)
			delete(pod, "nodeSelector")
			container := pod["containers"].([]any)[0].(map[string]any)
			container["env"] = slices.DeleteFunc(container["env"].([]any), func(variable any) bool {
				_, ofConfigMap, _ := unstructured.NestedMap(variable.(map[string]any), "valueFrom",
					"configMapKeyRef")
				return ofConfigMap
			})
		}
		assert.Check(t, is.DeepEqual(effects(t, i), effects(t, byOLM)), "the bundle differs")
	})
}

// prerequisites returns the manifests of an installation that the kustomization of the
// prerequisites keeps.
func (b olmBundle) prerequisites(t *testing.T, i installation) installation {
	t.Helper()
	var kustomization struct {
		Resources []string
		Patches   []struct{ Patch string }
	}
	b.read(t, "prerequisites/kustomization.yaml", &kustomization)
	assert.Check(t, is.DeepEqual([]string{"../../operator"}, kustomization.Resources))
	kept := maps.Clone(i)
	delete(kept, "Kustomization")
	for _, entry := range kustomization.Patches {
		deleted := parse(t, []byte(entry.Patch))
		kind := deleted.GetKind()
		before := len(kept[kind])
		kept[kind] = slices.DeleteFunc(slices.Clone(kept[kind]), func(o *unstructured.Unstructured) bool {
			return deleted.Object["$patch"] == "delete" && name(o) == name(deleted)
		})
		assert.Check(t, is.Len(kept[kind], before-1), "no object for the patch %s", entry.Patch)
	}
	return kept
}

// install adds the objects that OLM creates from the ClusterServiceVersion.
func (b olmBundle) install(into installation, namespace string) {
	add := func(kind, namespace, name string, fields map[string]any) {
		object := &unstructured.Unstructured{Object: fields}
		object.SetKind(kind)
		object.SetNamespace(namespace)
		object.SetName(name)
		into[kind] = append(into[kind], object)
	}
	for _, deployment := range b.strategy.Deployments {
		add("Deployment", namespace, deployment.Name, map[string]any{"spec": deployment.Spec})
	}
	accounts := map[string]bool{}
	grant := func(prefix, namespace string, all []olmPermissions) {
		for n, permissions := range all {
			account, name := permissions.ServiceAccountName, fmt.Sprintf("olm-%d", n)
			accounts[account] = true
			add(prefix+"Role", namespace, name, map[string]any{"rules": permissions.Rules})
			add(prefix+"RoleBinding", namespace, name, map[string]any{
				"roleRef":  map[string]any{"kind": prefix + "Role", "name": name},
				"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": account}},
			})
		}
	}
	grant("", namespace, b.strategy.Permissions)
	grant("Cluster", "", b.strategy.ClusterPermissions)
	for account := range accounts {
		add("ServiceAccount", namespace, account, map[string]any{})
	}
}

// effects returns what an installation creates: the content of each object, but only the spec of
// Deployments and only the names of ServiceAccounts, and instead of Roles the rules in each
// namespace. The names of Roles do not matter.
func effects(t *testing.T, i installation) map[string]any {
	t.Helper()
	all := map[string]any{}
	for kind, objects := range i {
		for _, object := range objects {
			switch kind {
			case "Kustomization", "Role", "ClusterRole":
			case "RoleBinding", "ClusterRoleBinding":
				where := "permissions in " + object.GetNamespace()
				rules, _ := all[where].([]string)
				all[where] = append(rules, i.granted(t, object)...)
				slices.Sort(all[where].([]string))
			case "Deployment":
				all[kind+" "+name(object)] = object.Object["spec"]
			case "ServiceAccount":
				all[kind+" "+name(object)] = true
			default:
				all[kind+" "+name(object)] = object.Object
			}
		}
	}
	return all
}

// granted returns the rules of the Role that a binding binds to the ServiceAccount of the operator.
func (i installation) granted(t *testing.T, object *unstructured.Unstructured) []string {
	t.Helper()
	var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
	convert(t, object, &binding)
	account := i["ServiceAccount"][0].GetName()
	assert.Check(t, len(binding.Subjects) == 1 && binding.Subjects[0].Name == account,
		"%s binds %v, not ServiceAccount %s", object.GetName(), binding.Subjects, account)
	key := roleKey{binding.Namespace, binding.RoleRef.Name}
	rules, found := rulesOfRoles(t, i[binding.RoleRef.Kind])[key]
	if !found {
		return []string{"those of " + binding.RoleRef.Name}
	}
	var texts []string
	for _, rule := range rules {
		text, err := json.Marshal(rule)
		assert.NilError(t, err)
		texts = append(texts, string(text))
	}
	return texts
}

func name(object *unstructured.Unstructured) string {
	return object.GetNamespace() + "/" + object.GetName()
}

// Of OpenShift's API groups only operator.openshift.io is served, for ClusterCSIDrivers.
func TestKustomizationsForKubernetesNeedNothingOfOpenShift(t *testing.T) {
	t.Parallel()
	for driver, fsys := range leading(t) {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			deployments := 0
			installed := installedOnKubernetes(t, fsys)
			for name, text := range installed {
				object := parse(t, text)
				group := object.GroupVersionKind().Group
				assert.Check(t, group == "operator.openshift.io" || !strings.HasSuffix(group, ".openshift.io"))
				assert.Check(t, object.GetKind() != "ClusterRole" ||
					!strings.Contains(string(text), "config.openshift.io"), name)
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
		if p.Target.Kind == "" {
			deleted := parse(t, []byte(p.Patch))
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

// Administrators of CSI-Addons bind these roles, scrape this Service by name, and admit the pods to
// sidecars by their labels. The controller of kubernetes-csi-addons has the same names and labels.
func TestObjectsOfCSIAddonsHaveTheNamesThatOthersUse(t *testing.T) {
	t.Parallel()
	missing := map[string]bool{
		"Role csi-addons-leader-election-role":                  true,
		"RoleBinding csi-addons-leader-election-rolebinding":    true,
		"ClusterRole csi-addons-proxy-role":                     true,
		"ClusterRoleBinding csi-addons-proxy-rolebinding":       true,
		"ClusterRole csi-addons-metrics-reader":                 true,
		"Service csi-addons-controller-manager-metrics-service": true,
	}
	for _, object := range kustomized(t, "csi-addons/controller") {
		delete(missing, object.GetKind()+" "+object.GetName())
		if object.GetKind() == "Deployment" {
			labels, _, _ := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata",
				"labels")
			want := map[string]string{
				"app.kubernetes.io/name": "csi-addons", "control-plane": "controller-manager",
			}
			assert.Check(t, is.DeepEqual(want, labels), "labels of the pods")
		}
		if object.GetKind() != "Service" {
			continue
		}
		var service corev1.Service
		convert(t, object, &service)
		want := []corev1.ServicePort{
			{Name: "https", Port: 8443, TargetPort: intstr.FromString("metrics")},
		}
		assert.Check(t, is.DeepEqual(want, service.Spec.Ports), "ports of the Service")
	}
	assert.Check(t, len(missing) == 0, "objects are missing: %v", missing)
}
