package assets_test

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// On Kubernetes the namespace may contain pods of others.
func TestPoliciesIsolateOurPodsOnly(t *testing.T) {
	t.Parallel()
	eachInstallation(t, func(t *testing.T, _ string, f flavour.Flavour, i installation) {
		if f != flavour.Kubernetes {
			return
		}
		isolated := map[string][]networkingv1.PolicyType{}
		for _, object := range i["NetworkPolicy"] {
			var policy networkingv1.NetworkPolicy
			convert(t, object, &policy)
			selector := policy.Spec.PodSelector
			assert.Check(t, len(selector.MatchLabels) > 0, "%s selects all pods", policy.Name)
			pods := metav1.FormatLabelSelector(&selector)
			isolated[pods] = append(isolated[pods], policy.Spec.PolicyTypes...)
		}
		assert.Check(t, is.Len(isolated, 2), "pods of the operator and of the driver: %v", isolated)
		for pods, types := range isolated {
			assert.Check(t, slices.Contains(types, networkingv1.PolicyTypeIngress) &&
				slices.Contains(types, networkingv1.PolicyTypeEgress), "%s: %v", pods, types)
		}
	})
}

// To write the object of a driver is to be root on the nodes.
func TestOnlyThePermissionToReadIsAddedToOtherClusterRoles(t *testing.T) {
	t.Parallel()
	reads := []string{"get", "list", "watch"}
	eachInstallation(t, func(t *testing.T, driver string, f flavour.Flavour, i installation) {
		writes := map[bool]bool{}
		for _, role := range i["ClusterRole"] {
			aggregated := false
			for label := range role.GetLabels() {
				aggregated = aggregated || strings.HasPrefix(label, "rbac.authorization.k8s.io/")
			}
			if !aggregated && role.GetName() != "openstack-"+driver+"-edit" {
				continue
			}
			for _, rule := range rulesOf(t, role, nil) {
				assert.Check(t, is.DeepEqual(rule.APIGroups, []string{"csi.openstack.org"}))
				writes[aggregated] = !slices.Equal(rule.Verbs, reads)
			}
		}
		want := map[bool]bool{}
		if f == flavour.Kubernetes {
			want = map[bool]bool{true: false, false: true}
		}
		assert.Check(t, is.DeepEqual(writes, want), "whether the roles permit writing, by aggregation")
	})
}
