package assets_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// The API server refuses a Role, a ClusterRole or a binding with a permission that its writer does
// not have. In a guest cluster the operators are administrators. They do not need the objects for
// CSI-Addons.
func TestEveryReleaseOfOpenShiftGrantsWhatRolesContain(t *testing.T) {
	t.Parallel()
	operators, err := fixtures.Operators([]string{"manila", "cinder"})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := fixtures.Render("cluster", fixtures.Values{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range operators {
		objects := rbacObjects(t, bundles(t, flavour.Standalone)[o.Driver], o.OperandNamespace)
		known := rulesOfRoles(t, slices.Concat(cluster, objects))
		for _, release := range fixtures.Releases() {
			roles, err := o.RolesOfOpenShift(false, release)
			if err != nil {
				t.Fatal(err)
			}
			granted := rulesOfRoles(t, roles)
			for _, object := range objects {
				for _, p := range refused(object.GetNamespace(), rulesOf(t, object, known), granted) {
					t.Errorf("%s %s: OpenShift %s does not grant this to %s: %s",
						object.GetKind(), object.GetName(), release, o.Name, p)
				}
			}
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
		text := strings.ReplaceAll(string(asset.Data), "${"+bundle.NodeNamespace+"}", namespace)
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatalf("%s: %v", asset.Name, err)
		}
		objects = append(objects, object)
	}
	if len(objects) == 0 {
		t.Error("the bundle contains no RBAC objects")
	}
	return objects
}

// roleKey identifies a Role, or a ClusterRole, which has no namespace.
type roleKey struct{ namespace, name string }

// rulesOfRoles returns the rules of the Roles and ClusterRoles among the objects.
func rulesOfRoles(
	t *testing.T, objects []*unstructured.Unstructured,
) map[roleKey][]rbacv1.PolicyRule {
	t.Helper()
	all := map[roleKey][]rbacv1.PolicyRule{}
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
	t *testing.T, object *unstructured.Unstructured, known map[roleKey][]rbacv1.PolicyRule,
) []rbacv1.PolicyRule {
	t.Helper()
	var content struct {
		Rules   []rbacv1.PolicyRule `json:"rules"`
		RoleRef rbacv1.RoleRef      `json:"roleRef"`
	}
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	if err := convert(object.Object, &content); err != nil {
		t.Fatal(err)
	}
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

// permission is one verb on one resource, and on one object if it has a name.
type permission struct{ verb, group, resource, name string }

func (p permission) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", p.verb, p.group, p.resource, p.name))
}

// permissions returns what a rule contains.
func permissions(rule rbacv1.PolicyRule) []permission {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []permission
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					all = append(all, permission{verb, group, resource, name})
				}
			}
		}
	}
	return all
}

// in returns whether a rule contains the permission.
func (p permission) in(rule rbacv1.PolicyRule) bool {
	contains := func(list []string, one string) bool {
		return slices.Contains(list, one) || slices.Contains(list, "*")
	}
	return contains(rule.Verbs, p.verb) && contains(rule.APIGroups, p.group) &&
		contains(rule.Resources, p.resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, p.name))
}

// refused returns the wanted permissions for a namespace that the granted roles do not contain. A
// rule for the cluster has no namespace.
func refused(
	namespace string, wanted []rbacv1.PolicyRule, granted map[roleKey][]rbacv1.PolicyRule,
) []permission {
	var held []rbacv1.PolicyRule
	for key, rules := range granted {
		if key.namespace == "" || key.namespace == namespace {
			held = append(held, rules...)
		}
	}
	var missing []permission
	for _, rule := range wanted {
		for _, p := range permissions(rule) {
			if !slices.ContainsFunc(held, p.in) {
				missing = append(missing, p)
			}
		}
	}
	return missing
}
