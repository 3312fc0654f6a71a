//go:build integration

package csiaddons

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// createPermissions gives the ServiceAccounts of the sidecars in controller pods and in node pods
// the permissions of docs/csi-addons.md, and lets the controller call them.
func (c *cluster) createPermissions(kube kubernetes.Interface) {
	c.Helper()
	leases := rule("coordination.k8s.io", "leases", "get", "create", "update")
	c.createSidecarPermissions(kube, leaderAccount, leases)
	c.createSidecarPermissions(kube, nodeAccount)
	c.allowController(kube)
}

// createSidecarPermissions gives a ServiceAccount the permissions of every sidecar, and more in the
// namespace of the driver.
func (c *cluster) createSidecarPermissions(
	kube kubernetes.Interface, account string, more ...rbacv1.PolicyRule,
) {
	c.Helper()
	name := metav1.ObjectMeta{Name: account}
	subjects := []rbacv1.Subject{
		{Kind: rbacv1.ServiceAccountKind, Namespace: driverNamespace, Name: account},
	}
	rbac := kube.RbacV1()
	_, err := rbac.ClusterRoles().Create(c.Context(), &rbacv1.ClusterRole{
		ObjectMeta: name,
		Rules: []rbacv1.PolicyRule{
			rule("", "persistentvolumes", "get"),
			rule("", "secrets", "get"),
			rule("authentication.k8s.io", "tokenreviews", "create"),
			rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		},
	}, metav1.CreateOptions{})
	c.must(err)
	_, err = rbac.ClusterRoleBindings().Create(c.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, Subjects: subjects, RoleRef: roleRef("ClusterRole", account),
	}, metav1.CreateOptions{})
	c.must(err)
	_, err = rbac.Roles(driverNamespace).Create(c.Context(), &rbacv1.Role{
		ObjectMeta: name,
		Rules: append(more, rule(v1alpha1.Group, "csiaddonsnodes",
			"get", "list", "watch", "create", "update", "delete")),
	}, metav1.CreateOptions{})
	c.must(err)
	_, err = rbac.RoleBindings(driverNamespace).Create(c.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name, Subjects: subjects, RoleRef: roleRef("Role", account),
	}, metav1.CreateOptions{})
	c.must(err)
}

// allowController lets the controller call the sidecars of the namespace of the driver.
func (c *cluster) allowController(kube kubernetes.Interface) {
	c.Helper()
	name := metav1.ObjectMeta{Name: "callers"}
	_, err := kube.RbacV1().Roles(driverNamespace).Create(c.Context(), &rbacv1.Role{
		ObjectMeta: name,
		Rules:      []rbacv1.PolicyRule{rule(v1alpha1.Group, "csiaddonsnodes/calls", "create")},
	}, metav1.CreateOptions{})
	c.must(err)
	_, err = kube.RbacV1().RoleBindings(driverNamespace).Create(c.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: roleRef("Role", "callers"),
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: "csi-addons-system",
			Name: "csi-addons-controller-manager",
		}},
	}, metav1.CreateOptions{})
	c.must(err)
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs,
	}
}

func roleRef(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}
