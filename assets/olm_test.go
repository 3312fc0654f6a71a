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
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
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
		Name  string         `json:"name"`
		Label map[string]any `json:"label"`
		Spec  map[string]any `json:"spec"`
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
		for _, f := range []flavour.Flavour{flavour.Standalone, flavour.Kubernetes} {
			t.Run(driver+"/"+string(f), func(t *testing.T) {
				t.Parallel()
				folder := bundle.Folder(f)
				b := readOLMBundle(t, fsys, path.Join(folder, "olm"))
				test(t, readInstallation(t, fsys, path.Join(folder, "operator")), b)
			})
		}
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
// and the other manifests of the bundle, in the namespace of the operator. On OpenShift the
// administrator applies the prerequisites; elsewhere there are none.
func TestOLMInstallsWhatTheKustomizationInstalls(t *testing.T) {
	t.Parallel()
	eachOLMBundle(t, func(t *testing.T, i installation, b olmBundle) {
		byOLM := installation{}
		if _, err := fs.Stat(b, "prerequisites"); err == nil {
			assert.Check(t, is.Len(b.manifests["CustomResourceDefinition"], 0), "prerequisites")
			byOLM = b.prerequisites(t, i)
		}
		for kind, objects := range b.manifests {
			if kind != "ClusterServiceVersion" {
				byOLM[kind] = append(byOLM[kind], objects...)
			}
		}
		b.install(byOLM, i["Deployment"][0].GetNamespace())
		// The administrator creates the object, whose CRD the bundle contains, from its example.
		complete := maps.Clone(i)
		for kind := range i {
			if strings.HasSuffix(kind, "Driver") && len(byOLM["CustomResourceDefinition"]) > 0 &&
				kind != "CSIDriver" {
				assert.Check(t, is.Len(byOLM[kind], 0))
				delete(complete, kind)
			}
		}
		delete(byOLM, "CustomResourceDefinition")
		assert.Check(t, is.DeepEqual(effects(t, complete), effects(t, byOLM)), "the bundle differs")
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
		add("Deployment", namespace, deployment.Name, map[string]any{
			"spec": deployment.Spec, "metadata": map[string]any{"labels": deployment.Label},
		})
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
// Deployments, their label by which the plugin of kubectl finds them, and only the names of
// ServiceAccounts, and instead of Roles the rules in each namespace. The names of Roles do not
// matter.
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
				part := object.GetLabels()["app.kubernetes.io/part-of"]
				all[kind+" "+name(object)] = []any{object.Object["spec"], part}
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
