package assets_test

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// installation contains the manifests that install the operator of a driver, by kind.
type installation map[string][]*unstructured.Unstructured

// eachInstallation runs a test for the operator of each leading driver in each flavour.
func eachInstallation(
	t *testing.T, test func(t *testing.T, driver string, f flavour.Flavour, i installation),
) {
	t.Helper()
	for driver, fsys := range drivers(t) {
		if companionOf(t, fsys) != "" {
			continue
		}
		for _, f := range flavour.All() {
			t.Run(driver+"/"+string(f), func(t *testing.T) {
				t.Parallel()
				test(t, driver, f, readInstallation(t, fsys, path.Join(bundle.Folder(f), "operator")))
			})
		}
	}
}

func companionOf(t *testing.T, fsys fs.FS) string {
	t.Helper()
	text, err := fs.ReadFile(fsys, "driver.yaml")
	assert.NilError(t, err)
	var driver struct {
		CompanionOf string `json:"companionOf"`
	}
	assert.NilError(t, yaml.Unmarshal(text, &driver))
	return driver.CompanionOf
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
		object := &unstructured.Unstructured{}
		assert.Check(t, yaml.Unmarshal(text, &object.Object), file)
		assert.Check(t, !strings.Contains(string(text), "${"), "%s contains a placeholder", file)
		found[object.GetKind()] = append(found[object.GetKind()], object)
		return nil
	})
	assert.NilError(t, err)
	return found
}

// rules returns the rules of Roles of a kind by the names of the Roles.
func (i installation) rules(t *testing.T, kind string) map[string][]rbacv1.PolicyRule {
	t.Helper()
	all := map[string][]rbacv1.PolicyRule{}
	for _, object := range i[kind] {
		var role rbacv1.ClusterRole // a Role has the same field
		convert(t, object, &role)
		all[role.Namespace+"/"+role.Name] = role.Rules
	}
	return all
}

func convert(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	text, err := object.MarshalJSON()
	assert.NilError(t, err)
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

// The operator may do nothing that an attacker could use to get the permissions of others.
func TestOperatorsHaveNarrowPermissions(t *testing.T) {
	t.Parallel()
	eachInstallation(t, func(t *testing.T, _ string, f flavour.Flavour, i installation) {
		assert.Check(t, f != flavour.HyperShift || len(i["ClusterRole"]) == 0,
			"an operator of a hosted control plane has a ClusterRole")
		for _, kind := range []string{"Role", "ClusterRole"} {
			for role, rules := range i.rules(t, kind) {
				for _, rule := range rules {
					checkRule(t, kind, role, rule)
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
	assert.Check(t, !has(rule.Verbs, "escalate", "impersonate", "deletecollection"),
		"%s escalates: %v", role, rule)
	assert.Check(t, !has(rule.Resources, "pods/exec", "serviceaccounts/token"),
		"%s contains a subresource that runs code or issues tokens: %v", role, rule)
	assert.Check(t, kind != "ClusterRole" || !has(rule.Resources, "secrets", "configmaps"),
		"%s reads Secrets or ConfigMaps of all namespaces: %v", role, rule)
	named := len(rule.ResourceNames) > 0
	if has(rule.Resources, "secrets") && !named && !slices.Equal(rule.Verbs, []string{"create"}) {
		t.Errorf("%s allows requests for Secrets of any name: %v", role, rule)
	}
	assert.Check(t, !has(rule.Verbs, "bind", "use") || named,
		"%s does not name the roles or constraints: %v", role, rule)
}
