package operator

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// permit makes reviews of the operator's permissions return rules. Keys are the namespaces, ""
// stands for all.
func permit(fake *clienttesting.Fake, rules map[string][]authorizationv1.ResourceRule) {
	fake.PrependReactor("create", "selfsubjectrulesreviews",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			create, ok := action.(clienttesting.CreateAction)
			if !ok {
				return false, nil, nil
			}
			review, ok := create.GetObject().(*authorizationv1.SelfSubjectRulesReview)
			if !ok {
				return false, nil, nil
			}
			review.Status.ResourceRules = slices.Concat(rules[""], rules[review.Spec.Namespace])
			return true, review, nil
		})
}

// everything returns the rules of an administrator.
func everything() map[string][]authorizationv1.ResourceRule {
	all := []string{"*"}
	return map[string][]authorizationv1.ResourceRule{
		"": {{Verbs: all, APIGroups: all, Resources: all}},
	}
}

// withoutGrants returns the rules of an operator of Cinder that cluster-storage-operator installs,
// as far as CSI-Addons needs them.
func withoutGrants() map[string][]authorizationv1.ResourceRule {
	rule := func(group, resource string, verbs ...string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{
			Verbs: verbs, APIGroups: []string{group}, Resources: []string{resource},
		}
	}
	other := rule("networking.k8s.io", "networkpolicies", "update")
	other.ResourceNames = []string{"other"}
	return map[string][]authorizationv1.ResourceRule{
		"": {
			rule("apiextensions.k8s.io", "customresourcedefinitions", "get", "list", "create", "watch"),
			rule("rbac.authorization.k8s.io", "*", "*"), rule("", "persistentvolumes", "get"),
			rule("authentication.k8s.io", "tokenreviews", "create"),
		},
		operandsOfCinder: {rule("csiaddons.openshift.io", "csiaddonsnodes", "list", "watch"), other},
	}
}

const operandsOfCinder = "openshift-cluster-csi-drivers"

const missingGrants = "The operator lacks permissions for CSI-Addons: " +
	"create networkpolicies.networking.k8s.io in namespace " + operandsOfCinder + "; " +
	"create subjectaccessreviews.authorization.k8s.io; " +
	"create, patch, delete csiaddonsnodes.csiaddons.openshift.io in namespace " +
	operandsOfCinder + "; " +
	"get, list, watch, update, delete networkpolicies.networking.k8s.io " +
	"openstack-cinder-csi-driver-ingress-csi-addons in namespace " + operandsOfCinder + ". "

func TestConditionSaysWhyCSIAddonsAreInactive(t *testing.T) {
	t.Parallel()
	refuseCRD := func(d *driver) { d.csiAddons.watch.refused.Store(true) }
	activate := func(d *driver) { d.csiAddons.lingers = true }
	for name, tt := range map[string]struct {
		prepare   func(d *driver)
		degraded  bool
		clusterID string
		rules     map[string][]authorizationv1.ResourceRule
		status    opv1.ConditionStatus
		reason    string
		message   string
	}{
		"without the CRD": {
			status: opv1.ConditionFalse, reason: "NoCustomResourceDefinition",
			message: "CustomResourceDefinition csiaddonsnodes.csiaddons.openshift.io does not exist, so " +
				"the operator does not add CSI-Addons to the driver. Install CSI-Addons",
		},
		"active": {
			prepare: activate, status: opv1.ConditionTrue, reason: "AsExpected",
			message: "The operator adds CSI-Addons to the pods of the driver",
		},
		"writes are refused": {
			prepare: activate, degraded: true, rules: withoutGrants(),
			status: opv1.ConditionFalse, reason: "Forbidden",
			message: missingGrants + "Run `oc apply -k assets/csi-addons/openshift` to grant them",
		},
		"writes are refused outside OpenShift": {
			prepare: activate, degraded: true, rules: withoutGrants(), clusterID: "x",
			status: opv1.ConditionFalse, reason: "Forbidden",
			message: missingGrants + "The manifests of the operator's release grant them",
		},
		"writes fail for another reason": {
			prepare: activate, degraded: true, rules: everything(),
			status: opv1.ConditionTrue, reason: "AsExpected",
			message: "The operator adds CSI-Addons to the pods of the driver",
		},
		"reads are refused, but not by RBAC": {
			prepare: refuseCRD, rules: everything(), status: opv1.ConditionFalse, reason: "Forbidden",
			message: "The operator lacks permissions for CSI-Addons: list, watch " +
				"CustomResourceDefinition csiaddonsnodes.csiaddons.openshift.io. " +
				"Run `oc apply -k assets/csi-addons/openshift` to grant them",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAddonsFixture(t)
			d := f.assembled()
			d.settings.ClusterID = tt.clusterID
			if tt.prepare != nil {
				tt.prepare(d)
			}
			if tt.degraded {
				f.cluster.State.SetConditions(t, condition("OpenStackCinderDriverCSIAddonsControllerDegraded",
					opv1.ConditionTrue, "SyncError", "m"))
			}
			permit(&f.kube.Fake, tt.rules)
			want := condition("OpenStackCinderCSIAddonsActive", tt.status, tt.reason, tt.message)
			if diff := cmp.Diff(want, f.active(d)); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
			if reviews := f.reviews(); tt.rules == nil && reviews > 0 {
				t.Errorf("%d reviews of permissions, although no request was refused", reviews)
			}
		})
	}
}

// assembled returns the driver. Nothing runs.
func (f *addonsFixture) assembled() *driver {
	f.Helper()
	drivers, err := f.operator.fillAssets(f.cluster.Cluster, process())
	if err == nil {
		err = setUp(drivers)
	}
	if err != nil {
		f.Fatal(err)
	}
	return drivers[0]
}

// active syncs the condition once, and returns it.
func (f *addonsFixture) active(d *driver) opv1.OperatorCondition {
	f.Helper()
	controller, err := d.csiAddonsActive("Active")
	if err == nil {
		err = controller.Sync(f.Context(), factory.NewSyncContext("test", d.events))
	}
	if err != nil {
		f.Fatal(err)
	}
	found := v1helpers.FindOperatorCondition(f.cluster.State.SortedConditions(f.T),
		"OpenStackCinderCSIAddonsActive")
	if found == nil {
		f.Fatal("there is no condition")
	}
	return *found
}

// reviews returns the number of reviews of the operator's permissions.
func (f *addonsFixture) reviews() int {
	count := 0
	for _, action := range f.kube.Actions() {
		if action.GetResource().Resource == "selfsubjectrulesreviews" {
			count++
		}
	}
	return count
}

func TestConditionOfCSIAddonsStaysWhilePermissionsCannotBeRead(t *testing.T) {
	t.Parallel()
	f := newAddonsFixture(t)
	d := f.assembled()
	before := f.active(d)
	f.kube.PrependReactor("create", "selfsubjectrulesreviews",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("etcdserver: request timed out")
		})
	d.csiAddons.watch.refused.Store(true)
	if diff := cmp.Diff(before, f.active(d)); diff != "" {
		t.Errorf("condition (-want +got):\n%s", diff)
	}
}

func TestConditionSaysThatGuestClustersHaveNoNetworkFence(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.HyperShift, plugins()...)[0]
	if got := d.activeMessage(); !strings.Contains(got, "NetworkFence is not available in a guest") {
		t.Errorf("the message is %q", got)
	}
	if got := d.grantAdvice(); strings.Contains(got, "openshift") {
		t.Errorf("the advice is %q, but the manifest is for other clusters", got)
	}
}

func TestConditionsOfCSIAddonsAreRemovedWithItsImages(t *testing.T) {
	t.Parallel()
	f := newAddonsFixture(t)
	f.operator.csiAddons = []*bundle.Bundle{{}}
	d := f.assembled()
	kept := condition("OpenStackCinderSnapshotsServed", opv1.ConditionTrue, "AsExpected", "m")
	for _, stale := range []string{
		"OpenStackCinderDriverCSIAddonsControllerDegraded", "OpenStackCinderCSIAddonsActive",
	} {
		f.cluster.State.SetConditions(t, condition(stale, opv1.ConditionTrue, "SyncError", "m"), kept)
		controller, err := d.staleConditions("Test")
		if err == nil {
			err = controller.Sync(t.Context(), factory.NewSyncContext("test", d.events))
		}
		if err != nil {
			t.Fatal(err)
		}
		left := f.cluster.State.SortedConditions(t)
		if diff := cmp.Diff([]opv1.OperatorCondition{kept}, left); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
	}
}
