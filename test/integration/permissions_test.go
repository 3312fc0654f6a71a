//go:build integration

package integration

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/openstack-csi/csi-operator/test/golden"
)

// controllerAccount is the ServiceAccount of Manila's controllers.
const controllerAccount = "manila-csi-driver-controller-sa"

// allow returns a rule. Resources and verbs are separated by spaces.
func allow(group, resources, verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{group}, Resources: strings.Fields(resources),
		Verbs: strings.Fields(verbs), ResourceNames: names,
	}
}

// permissions are the verbs by "group/resource", and the name of an object if there is one.
type permissions map[string]map[string]bool

func newPermissions(rules ...rbacv1.PolicyRule) permissions {
	p := permissions{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range append([]string{""}, rule.ResourceNames...) {
					if (name == "") == (len(rule.ResourceNames) == 0) {
						p.add(strings.TrimSpace(group+"/"+resource+" "+name), rule.Verbs...)
					}
				}
			}
		}
	}
	return p
}

func (p permissions) add(to string, verbs ...string) {
	if p[to] == nil {
		p[to] = map[string]bool{}
	}
	for _, verb := range verbs {
		p[to][verb] = true
	}
}

// without returns the permissions that are not among others.
func (p permissions) without(others permissions) permissions {
	rest := permissions{}
	for to, verbs := range p {
		for verb := range verbs {
			if !others[to][verb] {
				rest.add(to, verb)
			}
		}
	}
	return rest
}

func (p permissions) String() string {
	text := ""
	for _, to := range slices.Sorted(maps.Keys(p)) {
		text += to + ": " + strings.Join(slices.Sorted(maps.Keys(p[to])), " ") + "\n"
	}
	return text
}

// account is a ServiceAccount.
type account struct {
	*cluster

	namespace, name string
}

func (a account) info() *user.DefaultInfo {
	info := serviceaccount.UserInfo(a.namespace, a.name, "")
	return &user.DefaultInfo{
		Name: info.GetName(), Groups: append(info.GetGroups(), user.AllAuthenticated),
	}
}

// all returns what RBAC allows the ServiceAccount in a namespace and everywhere.
func (a account) all(e *env, namespace string) (permissions, error) {
	config := rest.CopyConfig(a.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: a.info().Name, Groups: a.info().Groups}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(e.ctx(),
		&authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	var rules []rbacv1.PolicyRule
	for _, rule := range review.Status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: rule.APIGroups, Resources: rule.Resources, Verbs: rule.Verbs,
			ResourceNames: rule.ResourceNames,
		})
	}
	return newPermissions(rules...), nil
}

// permissions returns those in a namespace and everywhere that not every ServiceAccount has.
func (a account) permissions(e *env, namespace string) (permissions, error) {
	everybody, err := account{a.cluster, a.namespace, "without-permissions"}.all(e, namespace)
	if err != nil {
		return nil, err
	}
	own, err := a.all(e, namespace)
	return own.without(everybody), err
}

// hasPermissions returns nil if the ServiceAccount has exactly the permissions of the rules in a
// namespace, in addition to those of every ServiceAccount.
func (a account) hasPermissions(e *env, namespace string, want ...rbacv1.PolicyRule) error {
	got, err := a.permissions(e, namespace)
	if err != nil {
		return err
	}
	return checkEqual(newPermissions(want...).String(), got.String())
}

// may returns nil if SubjectAccessReviews for the ServiceAccount have the wanted result.
func (a account) may(e *env, want bool, namespace string, rule rbacv1.PolicyRule) error {
	for _, resource := range rule.Resources {
		base, subresource, _ := strings.Cut(resource, "/")
		for _, verb := range rule.Verbs {
			review, err := a.kube.AuthorizationV1().SubjectAccessReviews().Create(e.ctx(),
				&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: a.info().Name, Groups: a.info().Groups,
					ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: base,
						Subresource: subresource, Name: strings.Join(rule.ResourceNames, ""),
					},
				}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if review.Status.Allowed != want {
				return fmt.Errorf("%s may %s %s %s in %q: %v, want %v", a.name, verb, resource,
					rule.ResourceNames, namespace, review.Status.Allowed, want)
			}
		}
	}
	return nil
}

// mustHaveOnlyNeededPermissions checks the ServiceAccounts of the controllers and of the nodes. In
// a hosted control plane the sidecars use the kubeconfig of the guest cluster, so their
// ServiceAccount has no permission. Elsewhere, a golden file contains what the projects of the
// sidecars publish, and what the ClusterRoles of OpenShift contain for other versions and drivers:
// to create narrower ones, the operator would need all permissions in them.
func (e *env) mustHaveOnlyNeededPermissions() {
	e.t.Helper()
	namespace := e.subject.OperandNamespace
	node := account{e.guest, namespace, ofSubject(e.subject, nodeAccount, cinderNode+"-sa")}
	scc := allow("security.openshift.io", "securitycontextconstraints", "use", "privileged")
	e.eventually(soon, func() error { return node.hasPermissions(e, namespace, scc) })
	controller := account{
		e.management, e.subject.controllerNamespace,
		ofSubject(e.subject, controllerAccount, cinderController+"-sa"),
	}
	if e.isHosted() {
		e.must(controller.hasPermissions(e, controller.namespace))
		return
	}
	everywhere, err := controller.permissions(e, metav1.NamespaceDefault)
	e.must(err)
	beside, err := controller.permissions(e, controller.namespace)
	e.must(err)
	golden.Match(e.t, filepath.Join("testdata", "permissions", e.subject.Driver+".txt"),
		everywhere.String()+"in the namespace of the driver, too:\n"+
			beside.without(everywhere).String())
}

// TestUnusedPermissionsAreFound checks the comparison of Roles with audit logs after the suite.
func TestUnusedPermissionsAreFound(t *testing.T) {
	t.Parallel()
	requests := []request{
		{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "a"},
		{Verb: "watch", Resource: "secrets", Namespace: "ns", URI: "?fieldSelector=metadata.name%3Da"},
		{Verb: "patch", Resource: "clustercsidrivers", Subresource: "status", Name: "a"},
	}
	drivers := []string{"clustercsidrivers"}
	for want, rule := range map[string]rbacv1.PolicyRule{
		"": {Resources: []string{"secrets"}, Verbs: []string{"get", "watch", "list"}},
		"watch secrets [b]": {
			Resources: []string{"secrets"}, Verbs: []string{"watch"}, ResourceNames: []string{"b"},
		},
		"delete secrets []": {
			Resources: []string{"secrets"}, Verbs: []string{"watch", "delete"},
		},
		"patch clustercsidrivers []": {Resources: drivers, Verbs: []string{"patch"}},
	} {
		assert.Check(t, is.Equal(strings.Join(unusedIn(rule, "ns", requests[:2]), " "), want), "%v", rule)
	}
	status := []string{"clustercsidrivers/status"}
	rule := rbacv1.PolicyRule{Resources: status, Verbs: []string{"patch"}}
	if got := unusedIn(rule, "", requests); len(got) > 0 {
		t.Errorf("a request for a subresource is not found: %q", got)
	}
}

// TestRequestsThatAReleaseRefusesAreFound checks the comparison of audit logs with the releases.
func TestRequestsThatAReleaseRefusesAreFound(t *testing.T) {
	t.Parallel()
	held := map[string][]rbacv1.PolicyRule{
		"":   {allow("apps", "deployments deployments/status", "get")},
		"ns": {allow("", "secrets", "get", "a")},
	}
	for want, requests := range map[bool][]request{
		true: {
			{Verb: "get", Group: "apps", Resource: "deployments", Namespace: "x", Name: "y"},
			{Verb: "get", Group: "apps", Resource: "deployments", Subresource: "status", Name: "y"},
			{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "a"},
		},
		false: {
			{Verb: "get", Resource: "deployments", Name: "y"},
			{Verb: "list", Group: "apps", Resource: "deployments"},
			{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "b"},
			{Verb: "get", Resource: "secrets", Namespace: "x", Name: "a"},
		},
	} {
		for _, r := range requests {
			assert.Check(t, is.Equal(r.isGranted(held), want), "%v", r)
		}
	}
}
