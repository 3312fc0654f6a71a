//go:build integration

package csiaddons

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// createSidecarPermissions creates a ServiceAccount in the namespace of the driver with the
// permissions of docs/csi-addons/drivers.md for every sidecar, and with more in this namespace.
func (w *world) createSidecarPermissions(account string, more ...rbacv1.PolicyRule) {
	w.Helper()
	global := metav1.ObjectMeta{Name: account}
	local := metav1.ObjectMeta{Name: account, Namespace: driverNamespace}
	subjects := []rbacv1.Subject{
		{Kind: rbacv1.ServiceAccountKind, Namespace: driverNamespace, Name: account},
	}
	w.create(
		&corev1.ServiceAccount{ObjectMeta: local},
		&rbacv1.ClusterRole{ObjectMeta: global, Rules: []rbacv1.PolicyRule{
			rule("", "persistentvolumes", "get"),
			rule("", "secrets", "get"),
			rule("authentication.k8s.io", "tokenreviews", "create"),
			rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: global, Subjects: subjects, RoleRef: roleRef("ClusterRole", account),
		},
		&rbacv1.Role{ObjectMeta: local, Rules: append(more, rule(v1alpha1.Group, "csiaddonsnodes",
			"list", "watch", "create", "patch", "delete"))},
		&rbacv1.RoleBinding{
			ObjectMeta: local, Subjects: subjects, RoleRef: roleRef("Role", account),
		},
	)
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs,
	}
}

func roleRef(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}
