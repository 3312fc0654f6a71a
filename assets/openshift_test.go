package assets_test

import (
	"fmt"
	"os"
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
		known := rulesOfRoles(t, slices.Concat(cluster, objects))
		for _, release := range fixtures.Releases() {
			written, err := o.RolesOfOpenShift(false, release)
			assert.NilError(t, err)
			granted := rulesOfRoles(t, written)
			for _, object := range objects {
				held := granted.in(object.GetNamespace())
				if ok, missing := validation.Covers(held, rulesOf(t, object, known)); !ok {
					t.Errorf("%s %s: OpenShift %s does not grant this to %s: %v",
						object.GetKind(), object.GetName(), release, o.Name, missing)
				}
			}
		}
	}
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
			if rest := uncovered(all, rulesOfRoles(t, needed)); len(rest) > 0 {
				t.Errorf("%s on %s lacks %v", o.Name, release, sets.List(rest))
			}
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
func manifestFor(t *testing.T, o fixtures.Operator) []*unstructured.Unstructured {
	t.Helper()
	var all, bound []*unstructured.Unstructured
	names := sets.New[roleKey]()
	for _, text := range kustomized(t, "csi-addons/openshift") {
		object := &unstructured.Unstructured{}
		assert.NilError(t, yaml.Unmarshal([]byte(text), &object.Object))
		all = append(all, object)
		var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
		convert := runtime.DefaultUnstructuredConverter.FromUnstructured
		assert.NilError(t, convert(object.Object, &binding))
		account := rbacv1.Subject{Kind: "ServiceAccount", Name: o.Name, Namespace: o.Namespace}
		if slices.Contains(binding.Subjects, account) {
			names.Insert(roleKey{binding.Namespace, binding.RoleRef.Name})
		}
	}
	for _, object := range all {
		if strings.HasSuffix(object.GetKind(), "Role") &&
			names.Has(roleKey{object.GetNamespace(), object.GetName()}) {
			bound = append(bound, object)
		}
	}
	return bound
}

// kustomized returns the objects that the files of a kustomization contain.
func kustomized(t *testing.T, folder string) []string {
	t.Helper()
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &kustomization)
	}
	assert.NilError(t, err)
	var objects []string
	for _, name := range kustomization.Resources {
		text, err := os.ReadFile(filepath.Join(folder, name))
		assert.NilError(t, err)
		objects = append(objects, strings.Split(string(text), "\n---\n")...)
	}
	return objects
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
func rbacObjects(
	t *testing.T, b *bundle.Bundle, namespace string,
) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, asset := range b.Assets() {
		if !strings.Contains(kindOf(t, asset), "Role") {
			continue
		}
		text := strings.NewReplacer(
			"${"+bundle.NodeNamespace+"}", namespace,
			"${"+bundle.OperatorNamespace+"}", flavour.DefaultNamespace,
		).Replace(string(asset.Data))
		object := &unstructured.Unstructured{}
		assert.NilError(t, yaml.Unmarshal([]byte(text), &object.Object), asset.Name)
		objects = append(objects, object)
	}
	assert.Check(t, len(objects) != 0, "the bundle contains no RBAC objects")
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
func rulesOf(
	t *testing.T, object *unstructured.Unstructured, known roles,
) []rbacv1.PolicyRule {
	t.Helper()
	var content struct {
		Rules   []rbacv1.PolicyRule `json:"rules"`
		RoleRef rbacv1.RoleRef      `json:"roleRef"`
	}
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	assert.NilError(t, convert(object.Object, &content))
	if content.RoleRef.Name == "" {
		return content.Rules
	}
	key := roleKey{name: content.RoleRef.Name}
	if content.RoleRef.Kind == "Role" {
		key.namespace = object.GetNamespace()
	}
	rules, exists := known[key]
	if !exists {
		t.Errorf("%s %s names unknown %s", object.GetKind(), object.GetName(), key.name)
	}
	return rules
}
