//go:build integration

package integration

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// reasonsForUnused returns why the Roles of the operators contain permissions that tests need not
// use. Keys are resource and verb. An asterisk stands for every resource or verb.
func reasonsForUnused() map[string]string {
	const (
		sidecars   = "rules of Roles that the operator writes for its operands, which it must have itself"
		leftovers  = "removal of objects of earlier releases"
		authorizer = "the API server checks it when the operator writes a Role or a binding"
	)
	return map[string]string{
		"* bind":                          authorizer,
		"* use":                           authorizer,
		"* list":                          "API servers that cannot stream the objects in a watch",
		"* update":                        "repair of an object that somebody changed",
		"clusterrolebindings delete":      leftovers,
		"clusterroles delete":             leftovers,
		"csidrivers delete":               "another value of an immutable field",
		"clustercsidrivers get":           "a conflict with another writer",
		"events patch":                    "repeated events",
		"replicasets get":                 "the Deployment of an operator that runs in a pod",
		"secrets get":                     "another process creates the key of hashes at the same time",
		"csiaddonsnodes *":                sidecars,
		"endpoints *":                     sidecars,
		"leases *":                        sidecars,
		"persistentvolumeclaims/status *": sidecars,
		"pods *":                          sidecars,
		"subjectaccessreviews create":     sidecars,
		"volumesnapshotclasses watch":     sidecars,
		"volumesnapshotcontents *":        sidecars,
		"volumesnapshotcontents/status *": sidecars,
	}
}

// ranWholeSuite reports whether all tests ran: those of the tag long too, and without a flag that
// selects or skips tests.
func ranWholeSuite() bool {
	selecting := []string{"test.run", "test.skip", "test.list"}
	return long && !slices.ContainsFunc(selecting, func(name string) bool {
		f := flag.Lookup(name)
		return f != nil && f.Value.String() != ""
	})
}

// unusedPermissions compares the Roles of the operators with the audit logs of all clusters. It
// returns the permissions that no request used and that have no reason.
func (s *suite) unusedPermissions() ([]string, error) {
	var unused []string
	for _, f := range flavour.OnOpenShift() {
		for _, o := range s.operators {
			if f == flavour.HyperShift {
				var err error
				if o, err = o.Hosted(guestName); err != nil {
					return nil, err
				}
			}
			requests, err := s.requestsOf(f, o)
			if err != nil {
				return nil, err
			}
			missing, err := unusedBy(o, f, requests)
			if err != nil {
				return nil, err
			}
			unused = append(unused, missing...)
		}
	}
	slices.Sort(unused)
	return unused, nil
}

func (s *suite) requestsOf(f flavour.Flavour, o fixtures.Operator) ([]request, error) {
	var all []request
	for _, used := range s.all {
		if used.flavour != f || used.management == nil {
			continue
		}
		management := used.management
		some, err := management.requestsSince(0, sender{management.user(o.Name), o.Program})
		if err != nil {
			return nil, fmt.Errorf("reading the audit log of %s: %w", used.name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// unusedBy returns the permissions in an operator's Roles that the requests do not use.
func unusedBy(o fixtures.Operator, f flavour.Flavour, requests []request) ([]string, error) {
	objects, err := o.Roles(f == flavour.HyperShift)
	if err != nil {
		return nil, err
	}
	roles, err := decodeRoles(objects)
	var unused []string
	for _, role := range roles {
		for _, rule := range role.Rules {
			for _, p := range unusedIn(rule, role.Namespace, requests) {
				unused = append(unused, fmt.Sprintf("%s %s, %s %s: %s",
					f, o.Name, role.Kind, role.Name, p))
			}
		}
	}
	return unused, err
}

// decodeRoles returns the Roles and ClusterRoles among objects. A Role has the same fields.
func decodeRoles(objects []*unstructured.Unstructured) (roles []rbacv1.ClusterRole, err error) {
	for _, object := range objects {
		if !strings.HasSuffix(object.GetKind(), "Role") {
			continue
		}
		var role rbacv1.ClusterRole
		convert := runtime.DefaultUnstructuredConverter.FromUnstructured
		if err := convert(object.Object, &role); err != nil {
			return nil, fmt.Errorf("decoding %s %q: %w", object.GetKind(), object.GetName(), err)
		}
		roles = append(roles, role)
	}
	return roles, nil
}

// unusedIn returns the resources and verbs of a rule that no request uses and no reason explains.
func unusedIn(rule rbacv1.PolicyRule, namespace string, requests []request) []string {
	var unused []string
	for _, resource := range rule.Resources {
		for _, verb := range rule.Verbs {
			reasons := reasonsForUnused()
			uses := func(r request) bool { return r.uses(resource, verb, namespace, rule.ResourceNames) }
			reason := cmp.Or(reasons[resource+" "+verb], reasons[resource+" *"], reasons["* "+verb])
			if reason == "" && !slices.ContainsFunc(requests, uses) {
				unused = append(unused, fmt.Sprintf("%s %s %v", verb, resource, rule.ResourceNames))
			}
		}
	}
	return unused
}

// uses reports whether a request uses a permission. An empty namespace stands for all namespaces,
// and an empty list of names for all names. A list or watch of one object has the name in its URI.
func (r request) uses(resource, verb, namespace string, names []string) bool {
	of := r.Resource
	if r.Subresource != "" {
		of += "/" + r.Subresource
	}
	if of != resource || r.Verb != verb || namespace != "" && namespace != r.Namespace {
		return false
	}
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
		return r.Name == name || strings.Contains(r.URI, "metadata.name%3D"+name)
	})
}
