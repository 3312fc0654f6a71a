//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// refusedRequests compares the audit logs of all clusters with what each release of OpenShift
// grants. It returns the requests of the operators that it would refuse: most tests run with the
// Roles of this repository.
func (s *suite) refusedRequests() ([]string, error) {
	refused := sets.New[string]()
	for _, f := range flavour.OnOpenShift() {
		for _, o := range s.operators {
			hosted := f == flavour.HyperShift
			var err error
			if hosted {
				if o, err = o.Hosted(guestName); err != nil {
					return nil, err
				}
			}
			requests, err := s.requestsOf(f, o)
			if err != nil {
				return nil, err
			}
			for _, release := range fixtures.Releases() {
				held, err := grantedBy(o, hosted, release)
				if err != nil {
					return nil, err
				}
				for _, r := range requests {
					if !r.isForAddons() && !r.isAskedFor() && !r.isGranted(held) {
						refused.Insert(fmt.Sprintf("%s %s, %s: %s %s/%s %s in %q", f, o.Name, release,
							r.Verb, r.Group, r.ofResource(), r.Name, r.Namespace))
					}
				}
			}
		}
	}
	return sets.List(refused), nil
}

// grantedBy returns the rules that a release grants to an operator, by namespace. Those of
// ClusterRoles have the namespace "".
func grantedBy(
	o fixtures.Operator, hosted bool, release string,
) (map[string][]rbacv1.PolicyRule, error) {
	objects, err := o.RolesOfOpenShift(hosted, release)
	if err != nil {
		return nil, err
	}
	roles, err := decodeRoles(objects)
	held := map[string][]rbacv1.PolicyRule{}
	for _, role := range roles {
		held[role.Namespace] = append(held[role.Namespace], role.Rules...)
	}
	return held, err
}

// isForAddons returns true for requests that assets/csi-addons/openshift grants.
func (r request) isForAddons() bool { return strings.Contains(r.Name+r.Resource, "csi-addons") }

// isAskedFor returns true for a request that an operator sends only if the API server has said that
// it may, and for that question, which everybody may ask.
func (r request) isAskedFor() bool {
	return r.Resource == "priorityclasses" || r.Resource == "persistentvolumes" ||
		strings.HasPrefix(r.Resource, "selfsubject")
}

func (r request) ofResource() string {
	return strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/")
}

func (r request) isGranted(held map[string][]rbacv1.PolicyRule) bool {
	rule := rbacv1.PolicyRule{
		Verbs: []string{r.Verb}, APIGroups: []string{r.Group}, Resources: []string{r.ofResource()},
	}
	if r.Name != "" {
		rule.ResourceNames = []string{r.Name}
	}
	covered, _ := validation.Covers(slices.Concat(held[""], held[r.Namespace]),
		[]rbacv1.PolicyRule{rule})
	return covered
}
