package assets_test

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// secretRoles are ClusterRoles of OpenShift that allow reading every Secret of a cluster.
func secretRoles() []string {
	return []string{
		"openshift-csi-main-snapshotter-role",
		"openshift-csi-provisioner-configmap-and-secret-reader-role",
	}
}

// grants returns the rules of the Roles and ClusterRoles in a bundle, and the names of the roles
// that its bindings name.
func grants(t *testing.T, b *bundle.Bundle) (rules []rbacv1.PolicyRule, bound []string) {
	t.Helper()
	for _, asset := range b.Assets() {
		if asset.Role != bundle.Static {
			continue
		}
		switch object := decode(t, asset.Data).(type) {
		case *rbacv1.ClusterRole:
			rules = append(rules, object.Rules...)
		case *rbacv1.Role:
			rules = append(rules, object.Rules...)
		case *rbacv1.ClusterRoleBinding:
			bound = append(bound, object.RoleRef.Name)
		case *rbacv1.RoleBinding:
			bound = append(bound, object.RoleRef.Name)
		default:
		}
	}
	return rules, bound
}

func TestRolesGrantNamedSecretsOnly(t *testing.T) {
	t.Parallel()
	want := map[string][]string{"manila": {"csi-manila-secrets"}}
	eachBundle(t, func(t *testing.T, driver string, _ flavour.Flavour, b *bundle.Bundle) {
		rules, bound := grants(t, b)
		for _, role := range bound {
			assert.Check(t, !slices.Contains(secretRoles(), role),
				"a binding names %s, which allows reading every Secret", role)
		}
		var names []string
		for _, rule := range rules {
			for _, all := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
				assert.Check(t, !slices.Contains(all, rbacv1.ResourceAll),
					"a rule contains a wildcard: %v", rule)
			}
			if !slices.Contains(rule.Resources, "secrets") {
				continue
			}
			assert.Check(t, len(rule.ResourceNames) != 0 && slices.Equal(rule.Verbs, []string{"get"}),
				"a rule allows more than reading named Secrets: %v", rule)
			names = append(names, rule.ResourceNames...)
		}
		assert.Check(t, is.DeepEqual(want[driver], names), "Secrets")
	})
}
