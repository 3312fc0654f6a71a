//go:build integration

package integration

import (
	"fmt"
	"maps"
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
)

// controllerAccount is the ServiceAccount of Manila's controllers.
const controllerAccount = "manila-csi-driver-controller-sa"

// Groups of resources that the sidecars use.
const (
	storageGroup  = "storage.k8s.io"
	snapshotGroup = "snapshot.storage.k8s.io"
)

// allow returns a rule. Resources and verbs are separated by spaces.
func allow(group, resources, verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{group}, Resources: strings.Fields(resources),
		Verbs: strings.Fields(verbs), ResourceNames: names,
	}
}

// neededPermissions returns the permissions that the containers of the controllers need, according
// to the RBAC manifests that the projects of the sidecars publish. Keys are the containers.
func neededPermissions(s subject) map[string][]rbacv1.PolicyRule {
	needed := map[string][]rbacv1.PolicyRule{
		"csi-provisioner": {
			allow("", "persistentvolumes", "get list watch create patch delete"),
			allow("", "persistentvolumeclaims", "get list watch update"),
			allow(storageGroup, "storageclasses", "get list watch"),
			allow(snapshotGroup, "volumesnapshots", "get list watch update"),
			allow(snapshotGroup, "volumesnapshotcontents", "get list"),
			allow("", "events", "list watch create update patch"),
		},
		"csi-resizer": {
			allow("", "persistentvolumes", "get list watch patch"),
			allow("", "persistentvolumeclaims", "get list watch"),
			allow("", "persistentvolumeclaims/status", "patch"),
			allow("", "events", "list watch create update patch"),
		},
		"csi-snapshotter": {
			allow(snapshotGroup, "volumesnapshotclasses", "get list watch"),
			allow(snapshotGroup, "volumesnapshotcontents", "get list watch update patch"),
			allow(snapshotGroup, "volumesnapshotcontents/status", "update patch"),
			allow("", "events", "list watch create update patch"),
		},
		"kube-rbac-proxy": {allow("authentication.k8s.io", "tokenreviews", "create")},
	}
	if !s.isManila() {
		needed["csi-attacher"] = []rbacv1.PolicyRule{
			allow("", "persistentvolumes", "get list watch patch"),
			allow(storageGroup, "csinodes", "get list watch"),
			allow(storageGroup, "volumeattachments", "get list watch patch"),
			allow(storageGroup, "volumeattachments/status", "patch"),
		}
		// The driver supports topology, and attaches volumes before pods use them.
		needed["csi-provisioner"] = append(needed["csi-provisioner"],
			allow("", "nodes", "get list watch"), allow(storageGroup, "csinodes", "get list watch"),
			allow(storageGroup, "volumeattachments", "get list watch"))
		// The sidecar reads pods for --handle-volume-inuse-error.
		needed["csi-resizer"] = append(needed["csi-resizer"], allow("", "pods", "get list watch"))
	}
	return needed
}

// neededBesidePods returns the permissions that the containers of the controllers need in the
// namespace of the node plugins.
func neededBesidePods(s subject) map[string][]rbacv1.PolicyRule {
	needed := map[string][]rbacv1.PolicyRule{
		"leader election": {allow("coordination.k8s.io", "leases", "get create update")},
	}
	if s.isManila() {
		needed["Secret of StorageClasses"] = []rbacv1.PolicyRule{allow("", "secrets", "get", loginSecret)}
	}
	return needed
}

// superfluousPermissions returns the permissions that the controllers have and do not need. Keys
// are the ClusterRoles of OpenShift that contain them, for drivers with topology and for other
// versions of the sidecars. To create a narrower ClusterRole, the operator would need all
// permissions in it.
func superfluousPermissions(s subject) map[string][]rbacv1.PolicyRule {
	superfluous := map[string][]rbacv1.PolicyRule{
		"openshift-csi-provisioner-volumesnapshot-reader-role": {
			allow(snapshotGroup, "volumesnapshots", "watch update"),
		},
	}
	if s.isManila() {
		superfluous["openshift-csi-main-provisioner-role"] = []rbacv1.PolicyRule{
			allow("", "nodes", "get list watch"), allow(storageGroup, "csinodes", "get list watch"),
		}
		return superfluous
	}
	superfluous["openshift-csi-main-attacher-role"] = []rbacv1.PolicyRule{
		allow("", "persistentvolumes", "update"), allow(storageGroup, "volumeattachments", "update"),
	}
	superfluous["openshift-csi-main-resizer-role"] = []rbacv1.PolicyRule{
		allow("", "persistentvolumes persistentvolumeclaims/status", "update"),
	}
	return superfluous
}

// flat returns one line for each verb, resource and name.
func flat(tables ...map[string][]rbacv1.PolicyRule) []string {
	lines := map[string]bool{}
	for _, table := range tables {
		for _, rules := range table {
			for _, rule := range rules {
				addFlat(lines, rule)
			}
		}
	}
	return slices.Sorted(maps.Keys(lines))
}

func addFlat(lines map[string]bool, rule rbacv1.PolicyRule) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range append([]string{""}, rule.ResourceNames...) {
					if (name == "") == (len(rule.ResourceNames) == 0) {
						lines[strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", verb, group, resource, name))] = true
					}
				}
			}
		}
	}
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

// permissions returns what RBAC allows the ServiceAccount in a namespace and everywhere.
func (a account) permissions(e *env, namespace string) (map[string]bool, error) {
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
	lines := map[string]bool{}
	for _, rule := range review.Status.ResourceRules {
		addFlat(lines, rbacv1.PolicyRule{
			APIGroups: rule.APIGroups, Resources: rule.Resources, Verbs: rule.Verbs,
			ResourceNames: rule.ResourceNames,
		})
	}
	return lines, nil
}

// hasPermissions returns nil if the ServiceAccount has exactly these permissions in a namespace, in
// addition to those of every ServiceAccount.
func (a account) hasPermissions(e *env, namespace string, want []string) error {
	got, err := a.permissions(e, namespace)
	if err != nil {
		return err
	}
	everybody, err := account{a.cluster, a.namespace, "without-permissions"}.permissions(e, namespace)
	if err != nil {
		return err
	}
	maps.DeleteFunc(got, func(line string, _ bool) bool { return everybody[line] })
	return checkEqual(want, slices.Sorted(maps.Keys(got)))
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

// mustHaveOnlyNeededPermissions compares the ServiceAccounts of the controllers and of the nodes
// with the tables above. In a hosted control plane the sidecars use the kubeconfig of the guest
// cluster, so their ServiceAccount has no permission.
func (e *env) mustHaveOnlyNeededPermissions() {
	e.t.Helper()
	namespace := e.subject.OperandNamespace
	node := account{e.guest, namespace, ofSubject(e.subject, nodeAccount, cinderNode+"-sa")}
	scc := allow("security.openshift.io", "securitycontextconstraints", "use", "privileged")
	e.eventually(soon, func() error {
		return node.hasPermissions(e, namespace, flat(map[string][]rbacv1.PolicyRule{"": {scc}}))
	})
	controller := account{
		e.management, e.subject.controllerNamespace,
		ofSubject(e.subject, controllerAccount, cinderController+"-sa"),
	}
	if e.isHosted() {
		e.must(controller.hasPermissions(e, controller.namespace, nil))
		return
	}
	e.mustHaveNeededPermissions(controller)
}

func (e *env) mustHaveNeededPermissions(controller account) {
	e.t.Helper()
	everywhere, beside := neededPermissions(e.subject), neededBesidePods(e.subject)
	superfluous := superfluousPermissions(e.subject)
	e.eventually(soon, func() error {
		return controller.hasPermissions(e, controller.namespace, flat(everywhere, beside, superfluous))
	})
	e.must(controller.hasPermissions(e, metav1.NamespaceDefault, flat(everywhere, superfluous)))
	for namespace, table := range map[string]map[string][]rbacv1.PolicyRule{
		"": everywhere, controller.namespace: beside,
	} {
		for container, rules := range table {
			for _, rule := range rules {
				assert.Check(e.t, controller.may(e, true, namespace, rule), container)
			}
		}
	}
}

// TestUnusedPermissionsAreFound checks the comparison of Roles with audit logs, which runs after
// the whole suite.
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
