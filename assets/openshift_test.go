package assets_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// The API server refuses a Role, a ClusterRole or a binding with a permission that its writer does
// not have. The operators do not need the objects for CSI-Addons.
func TestEveryReleaseOfOpenShiftGrantsWhatRolesContain(t *testing.T) {
	t.Parallel()
	operators, err := fixtures.Operators([]string{"manila", "cinder"})
	assert.NilError(t, err)
	cluster, err := fixtures.Render("cluster", fixtures.Values{})
	assert.NilError(t, err)
	for _, o := range operators {
		objects := rbacObjects(t, bundles(t, flavour.Standalone)[o.Driver], o.OperandNamespace)
		assert.Check(t, len(objects) != 0, "the bundle contains no RBAC objects")
		known := rulesOfRoles(t, slices.Concat(cluster, objects))
		for _, release := range fixtures.Releases() {
			written, err := o.RolesOfOpenShift(false, release)
			assert.NilError(t, err)
			granted := rulesOfRoles(t, written)
			for _, object := range objects {
				held := granted.in(object.GetNamespace())
				if mayBind(t, held, object) {
					continue
				}
				_, missing := validation.Covers(held, rulesOf(t, object, known))
				assert.Check(t, is.Len(missing, 0), "OpenShift %s does not grant this to %s: %s %s",
					release, o.Name, object.GetKind(), object.GetName())
			}
		}
	}
}

// mayBind returns whether the rules permit binding the ClusterRole that an object names.
func mayBind(t *testing.T, held []rbacv1.PolicyRule, object *unstructured.Unstructured) bool {
	t.Helper()
	role, _, err := unstructured.NestedString(object.Object, "roleRef", "name")
	assert.NilError(t, err)
	bind := rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"},
		ResourceNames: []string{role}, Verbs: []string{"bind"},
	}
	covered, _ := validation.Covers(held, []rbacv1.PolicyRule{bind})
	return role != "" && covered
}

// The manifest grants what some release does not grant to the operators, and nothing else. No
// release with the manifest lacks anything. An operator need not bind ClusterRoles of OpenShift,
// because it has their rules (see the test before).
func TestManifestForOpenShiftGrantsWhatClusterStorageOperatorDoesNot(t *testing.T) {
	t.Parallel()
	operators, err := fixtures.Operators([]string{"manila", "cinder"})
	assert.NilError(t, err)
	for _, o := range operators {
		needed, err := o.Roles(false)
		assert.NilError(t, err)
		given := manifestFor(t, o)
		missing := sets.New[string]()
		for _, release := range fixtures.Releases() {
			written, err := o.RolesOfOpenShift(false, release)
			assert.NilError(t, err)
			missing = missing.Union(uncovered(rulesOfRoles(t, written), rulesOfRoles(t, needed)))
			all := rulesOfRoles(t, slices.Concat(written, given))
			rest := uncovered(all, rulesOfRoles(t, needed))
			assert.Check(t, is.Len(rest, 0), "%s on %s lacks permissions", o.Name, release)
		}
		granted := uncovered(roles{}, rulesOfRoles(t, given))
		assert.Check(t, is.DeepEqual(sets.List(missing), sets.List(granted)), "permissions of %s", o.Name)
	}
}

// uncovered returns the permissions of roles that others do not contain, except for `bind`.
func uncovered(held, needed roles) sets.Set[string] {
	lacks := sets.New[string]()
	for key, rules := range needed {
		_, missing := validation.Covers(held.in(key.namespace), rules)
		for _, rule := range missing {
			if !slices.Contains(rule.Verbs, "bind") {
				lacks.Insert(fmt.Sprintf("%s %s.%s %s in %q", strings.Join(rule.Verbs, ""),
					strings.Join(rule.Resources, ""), strings.Join(rule.APIGroups, ""),
					strings.Join(rule.ResourceNames, ""), key.namespace))
			}
		}
	}
	return lacks
}

// manifestFor returns the Roles of assets/csi-addons/openshift that are bound to an operator.
func manifestFor(t *testing.T, o fixtures.Operator) (bound []*unstructured.Unstructured) {
	t.Helper()
	names := sets.New[roleKey]()
	objects := kustomized(t, "csi-addons/openshift")
	for _, object := range objects {
		var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
		convert := runtime.DefaultUnstructuredConverter.FromUnstructured
		assert.NilError(t, convert(object.Object, &binding))
		account := rbacv1.Subject{Kind: "ServiceAccount", Name: o.Name, Namespace: o.Namespace}
		if slices.Contains(binding.Subjects, account) {
			names.Insert(roleKey{binding.Namespace, binding.RoleRef.Name})
		}
	}
	for _, object := range objects {
		if strings.HasSuffix(object.GetKind(), "Role") &&
			names.Has(roleKey{object.GetNamespace(), object.GetName()}) {
			bound = append(bound, object)
		}
	}
	return bound
}

// kustomized returns the objects that the files of a kustomization contain.
func kustomized(t *testing.T, folder string) (objects []*unstructured.Unstructured) {
	t.Helper()
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	assert.NilError(t, err)
	assert.NilError(t, yaml.Unmarshal(text, &kustomization))
	for _, name := range kustomization.Resources {
		text, err := os.ReadFile(filepath.Join(folder, name))
		assert.NilError(t, err)
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			objects = append(objects, parse(t, document))
		}
	}
	return objects
}

func parse(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	assert.NilError(t, yaml.Unmarshal(text, &object.Object))
	return object
}

// The operators are administrators in a guest cluster. They must not write RBAC objects in the
// namespace of a control plane.
func TestRBACObjectsOfHyperShiftAreInTheGuestCluster(t *testing.T) {
	t.Parallel()
	for driver, b := range bundles(t, flavour.HyperShift) {
		for _, asset := range b.Assets() {
			assert.Check(t, !strings.Contains(kindOf(t, asset), "Role") || asset.Side == flavour.Guest,
				"%s of %s is not in the guest cluster", asset.Name, driver)
		}
	}
}

// rbacObjects returns the RBAC objects of a bundle whose objects are in a namespace.
func rbacObjects(t *testing.T, b *bundle.Bundle, namespace string,
) (objects []*unstructured.Unstructured) {
	t.Helper()
	for _, asset := range b.Assets() {
		if !strings.Contains(kindOf(t, asset), "Role") {
			continue
		}
		text := strings.NewReplacer(
			"${"+bundle.NodeNamespace+"}", namespace,
			"${"+bundle.OperatorNamespace+"}", flavour.DefaultNamespace,
		).Replace(string(asset.Data))
		objects = append(objects, parse(t, []byte(text)))
	}
	return objects
}

// roleKey identifies a Role, or a ClusterRole, which has no namespace.
type roleKey struct{ namespace, name string }

// roles are the rules of Roles and ClusterRoles.
type roles map[roleKey][]rbacv1.PolicyRule

// in returns the rules that apply in a namespace, or in the whole cluster if it is "".
func (r roles) in(namespace string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for key, all := range r {
		if key.namespace == "" || key.namespace == namespace {
			rules = append(rules, all...)
		}
	}
	return rules
}

// rulesOfRoles returns the rules of the Roles and ClusterRoles among the objects.
func rulesOfRoles(t *testing.T, objects []*unstructured.Unstructured) roles {
	t.Helper()
	all := roles{}
	for _, object := range objects {
		if strings.HasSuffix(object.GetKind(), "Role") {
			all[roleKey{object.GetNamespace(), object.GetName()}] = rulesOf(t, object, nil)
		}
	}
	return all
}

// rulesOf returns the rules of a Role or ClusterRole, or those of the known role that a binding
// names.
func rulesOf(t *testing.T, object *unstructured.Unstructured, known roles) []rbacv1.PolicyRule {
	t.Helper()
	var content struct {
		Rules   []rbacv1.PolicyRule `json:"rules"`
		RoleRef rbacv1.RoleRef      `json:"roleRef"`
	}
	text, err := object.MarshalJSON()
	assert.NilError(t, err)
	assert.NilError(t, yaml.Unmarshal(text, &content))
	if content.RoleRef.Name == "" {
		return content.Rules
	}
	key := roleKey{name: content.RoleRef.Name}
	if content.RoleRef.Kind == "Role" {
		key.namespace = object.GetNamespace()
	}
	rules, exists := known[key]
	assert.Check(t, exists, "%s %s names unknown %s", object.GetKind(), object.GetName(), key.name)
	return rules
}

// secretRoles are ClusterRoles of OpenShift that allow reading every Secret of a cluster.
func secretRoles() []string {
	return []string{
		"openshift-csi-main-snapshotter-role",
		"openshift-csi-provisioner-configmap-and-secret-reader-role",
	}
}

func TestRolesGrantNamedSecretsOnly(t *testing.T) {
	t.Parallel()
	want := map[string][]string{"manila": {"csi-manila-secrets"}}
	eachBundle(t, func(t *testing.T, driver string, _ flavour.Flavour, b *bundle.Bundle) {
		var names []string
		objects := rbacObjects(t, b, "node")
		for _, object := range objects {
			role, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
			assert.Check(t, !slices.Contains(secretRoles(), role), "%s allows reading every Secret", role)
		}
		for _, rules := range rulesOfRoles(t, objects) {
			for _, rule := range rules {
				for _, all := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
					assert.Check(t, !slices.Contains(all, rbacv1.ResourceAll), "a wildcard: %v", rule)
				}
				if slices.Contains(rule.Resources, "secrets") {
					assert.Check(t, len(rule.ResourceNames) != 0 && slices.Equal(rule.Verbs, []string{"get"}),
						"a rule allows more than reading named Secrets: %v", rule)
					names = append(names, rule.ResourceNames...)
				}
			}
		}
		assert.Check(t, is.DeepEqual(want[driver], names), "Secrets")
	})
}

// installation contains the manifests that install the operator of a driver, by kind.
type installation map[string][]*unstructured.Unstructured

// eachInstallation runs a test for the operator of each leading driver in each flavour.
func eachInstallation(
	t *testing.T, test func(t *testing.T, driver string, f flavour.Flavour, i installation),
) {
	t.Helper()
	for driver, fsys := range leading(t) {
		for _, f := range flavour.All() {
			t.Run(driver+"/"+string(f), func(t *testing.T) {
				t.Parallel()
				test(t, driver, f, readInstallation(t, fsys, path.Join(bundle.Folder(f), "operator")))
			})
		}
	}
}

// leading returns the asset folders of the drivers that have an operator.
func leading(t *testing.T) map[string]fs.FS {
	t.Helper()
	found := drivers(t)
	for driver, fsys := range found {
		text, err := fs.ReadFile(fsys, "driver.yaml")
		assert.NilError(t, err)
		if parse(t, text).Object["companionOf"] != nil {
			delete(found, driver)
		}
	}
	return found
}

func readInstallation(t *testing.T, fsys fs.FS, folder string) installation {
	t.Helper()
	found := installation{}
	err := fs.WalkDir(fsys, folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		object := parse(t, text)
		assert.Check(t, !strings.Contains(string(text), "${"), "%s contains a placeholder", file)
		found[object.GetKind()] = append(found[object.GetKind()], object)
		return nil
	})
	assert.NilError(t, err)
	return found
}

func convert(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	text, err := object.MarshalJSON()
	assert.NilError(t, err)
	assert.NilError(t, yaml.UnmarshalStrict(text, into), "%s %s", object.GetKind(), object.GetName())
}

// The operator may do nothing that an attacker could use to get the permissions of others.
func TestOperatorsHaveNarrowPermissions(t *testing.T) {
	t.Parallel()
	eachInstallation(t, func(t *testing.T, _ string, f flavour.Flavour, i installation) {
		assert.Check(t, f != flavour.HyperShift || len(i["ClusterRole"]) == 0, "it has a ClusterRole")
		for _, kind := range []string{"Role", "ClusterRole"} {
			for role, rules := range rulesOfRoles(t, i[kind]) {
				for _, rule := range rules {
					checkRule(t, kind, role.name, rule)
				}
			}
		}
	})
}

func checkRule(t *testing.T, kind, role string, rule rbacv1.PolicyRule) {
	t.Helper()
	has := func(list []string, values ...string) bool {
		return slices.ContainsFunc(list, func(one string) bool { return slices.Contains(values, one) })
	}
	for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
		assert.Check(t, !has(list, "*"), "%s contains a wildcard: %v", role, rule)
	}
	assert.Check(t, !has(rule.Verbs, "escalate", "impersonate", "deletecollection"), "%s", role)
	assert.Check(t, !has(rule.Resources, "pods/exec", "serviceaccounts/token"), "%s: %v", role, rule)
	assert.Check(t, kind != "ClusterRole" || !has(rule.Resources, "secrets", "configmaps"),
		"%s reads Secrets or ConfigMaps of all namespaces: %v", role, rule)
	named := len(rule.ResourceNames) > 0
	creates := slices.Equal(rule.Verbs, []string{"create"})
	assert.Check(t, !has(rule.Resources, "secrets") || named || creates, "%s: %v", role, rule)
	assert.Check(t, !has(rule.Verbs, "bind", "use") || named, "%s names no role: %v", role, rule)
}
