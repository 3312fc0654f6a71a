package legacy_test

import (
	"regexp"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/legacy"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const (
	manilaDriver = "manila.csi.openstack.org"
	cinderDriver = "cinder.csi.openstack.org"
)

func generations(t *testing.T, driver string, f flavour.Flavour) []legacy.Generation {
	t.Helper()
	found, err := legacy.Generations(driver, f, "control-plane")
	assert.NilError(t, err)
	return found
}

func TestConditionsAreEitherKeptOrStale(t *testing.T) {
	t.Parallel()
	suffix := regexp.MustCompile("(Disabled|Degraded|Available|Progressing)$")
	for _, driver := range []string{manilaDriver, cinderDriver} {
		for _, f := range flavour.All() {
			var kept []string
			all := generations(t, driver, f)
			for _, g := range all {
				kept = append(kept, g.Conditions.Kept...)
			}
			stale := legacy.StaleConditions(all)
			for _, condition := range stale {
				assert.Check(t, !slices.Contains(kept, condition), "%s, %s: %s", driver, f, condition)
			}
			for _, condition := range append(kept, stale...) {
				assert.Check(t, suffix.MatchString(condition), "%s, %s: %s", driver, f, condition)
			}
		}
	}
}

func TestBindingsPrecedeRolesAndServices(t *testing.T) {
	t.Parallel()
	for driver, want := range map[string][]string{
		manilaDriver: {
			"ClusterRoleBinding/openstack-manila-kube-rbac-proxy-binding",
			"ClusterRoleBinding/openstack-manila-csi-main-resizer-binding",
			"ClusterRoleBinding/openstack-manila-csi-main-snapshotter-binding",
			"ClusterRole/openstack-manila-kube-rbac-proxy-role",
			"Service/manila-csi-driver-controller-metrics",
		},
		cinderDriver: {
			"ClusterRoleBinding/openstack-cinder-kube-rbac-proxy-binding",
			"ClusterRoleBinding/openstack-cinder-csi-main-snapshotter-binding",
			"ClusterRole/openstack-cinder-kube-rbac-proxy-role",
			"Service/openstack-cinder-csi-driver-controller-metrics",
		},
	} {
		var got []string
		for _, l := range legacy.Leftovers(generations(t, driver, flavour.HyperShift)) {
			got = append(got, l.GetKind()+"/"+l.GetName())
		}
		assert.Check(t, is.DeepEqual(want, got), "leftovers of %s", driver)
	}
}

func TestLeftoverComparesContentWithEachGeneration(t *testing.T) {
	t.Parallel()
	older := generations(t, manilaDriver, flavour.Standalone)[0]
	older.Leftovers = slices.DeleteFunc(older.Leftovers, func(o legacy.Object) bool {
		return o.GetName() != "manila-kube-rbac-proxy-role"
	})
	newer, list := older, []any{map[string]any{"verbs": []any{"list"}}}
	newer.Leftovers = []legacy.Object{{Unstructured: older.Leftovers[0].DeepCopy()}}
	newer.Leftovers[0].Side, newer.Leftovers[0].Object["rules"] = older.Leftovers[0].Side, list
	leftovers := legacy.Leftovers([]legacy.Generation{older, newer})
	assert.Assert(t, is.Len(leftovers, 1), "want one for both generations")
	live := leftovers[0].DeepCopy()
	live.SetResourceVersion("5")
	live.SetLabels(map[string]string{"of": "somebody"})
	for _, test := range []struct {
		name  string
		field string
		value any
		want  bool
	}{
		{"as the older release wrote it", "rules", live.Object["rules"], true},
		{"as the newer release wrote it", "rules", list, true},
		{"other rules", "rules", []any{}, false},
		{"rules of other roles", "aggregationRule", map[string]any{}, false},
	} {
		changed := live.DeepCopy()
		changed.Object[test.field] = test.value
		assert.Check(t, is.Equal(leftovers[0].Unchanged(changed), test.want), "%s: unchanged", test.name)
	}
}

// The API server and other releases change the rest of a Service.
func TestServiceIsUnchangedWhileItsSelectorIs(t *testing.T) {
	t.Parallel()
	leftovers := legacy.Leftovers(generations(t, cinderDriver, flavour.HyperShift))
	service := leftovers[len(leftovers)-1]
	for name, test := range map[string]struct {
		field string
		value any
		want  bool
	}{
		"other ports":          {"ports", []any{}, true},
		"an address":           {"clusterIP", "10.0.0.1", true},
		"a selector of others": {"selector", map[string]any{"app": "other"}, false},
		"no selector":          {"selector", nil, false},
	} {
		live := service.DeepCopy()
		spec, _ := live.Object["spec"].(map[string]any)
		spec[test.field] = test.value
		assert.Check(t, is.Equal(service.Unchanged(live), test.want), "%s: unchanged", name)
	}
}
