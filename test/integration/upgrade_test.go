//go:build integration

package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/legacy"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/readiness"
	"github.com/openstack-csi/csi-operator/test/generations"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// upgrade is an environment in which an earlier operator has installed the driver.
type upgrade struct {
	*env

	earlier generations.Generation
	// older are generations of which the cluster still contains leftovers.
	older []generations.Generation
	// stale are the conditions of all earlier operators that ours removes.
	stale []string
	// before contains the objects of the earlier operator in the cluster, by description.
	before map[string]*unstructured.Unstructured
}

// leftoversOf returns the names of some of the objects that a generation leaves and the operator
// deletes. Two of them exposed the metrics of the sidecars in a hosted control plane.
func leftoversOf(generation string) []string {
	return map[string][]string{
		"manila-4.17": {
			"manila-controller-privileged-binding", "manila-node-privileged-binding",
			"manila-privileged-role",
		},
		"manila-4.22": {
			"openstack-manila-csi-main-snapshotter-binding", "manila-controller-privileged-binding",
			"manila-node-privileged-binding", "manila-privileged-role",
		},
		"manila-5.1": {
			"openstack-manila-csi-main-snapshotter-binding", metricsService,
			"openstack-manila-kube-rbac-proxy-role", "openstack-manila-kube-rbac-proxy-binding",
		},
		"cinder-4.17": {"openstack-cinder-controller-privileged-binding"},
		"cinder-4.22": {
			"openstack-cinder-csi-main-snapshotter-binding",
			"openstack-cinder-controller-privileged-binding", cinderController + "-metrics",
			"openstack-cinder-kube-rbac-proxy-role", "openstack-cinder-kube-rbac-proxy-binding",
		},
		"cinder-5.1": {"openstack-cinder-csi-main-snapshotter-binding"},
	}[generation]
}

// eachUpgrade runs a test for each earlier generation in one flavour, such that each flavour meets
// each driver and each release that it had. Without the tag long it runs the test for one of them.
// The cluster with generation 4.22 also contains leftovers of 4.17. The operator does not run.
func eachUpgrade(t *testing.T, test func(u *upgrade)) {
	t.Helper()
	selected := false
	for _, s := range subjects() {
		for _, f := range flavour.OnOpenShift() {
			namespace := s.OperandNamespace
			if f == flavour.HyperShift {
				namespace = hostedNamespace
			}
			all, err := generations.Of(s.ClusterCSIDriver, f, namespace)
			assert.NilError(t, err)
			for i, g := range all {
				hosted := g.Name == "manila-5.1" || g.Name == "cinder-4.22"
				if hosted != (f == flavour.HyperShift) || !long && g.Name != "manila-4.22" {
					continue
				}
				selected = true
				u := upgrade{earlier: g, stale: staleOf(all)}
				if strings.HasSuffix(g.Name, "-4.22") {
					u.older = all[:i]
				}
				t.Run(g.Name+"/"+string(f), func(t *testing.T) {
					t.Parallel()
					u.env = newEnv(t, options{Subject: s, Flavour: f, Types: noTypes(), Idle: true})
					test(&u)
				})
			}
		}
	}
	assert.Check(t, selected, "no earlier generation was tested")
}

func staleOf(all []generations.Generation) []string {
	var left []legacy.Generation
	for _, g := range all {
		left = append(left, g.Generation)
	}
	return legacy.StaleConditions(left)
}

// installDriver brings the cluster into the state in which the earlier operator leaves it.
func (u *upgrade) installDriver() {
	u.t.Helper()
	u.addType("default")
	if u.isHosted() {
		// With one replica the driver would be unavailable during a rollout.
		u.patchControlPlane(`{"controllerAvailabilityPolicy":"HighlyAvailable"}`)
	}
	for _, g := range u.older {
		u.install(permissionsOf(g))
	}
	u.install(u.earlier.Objects)
	u.eventually(installed, u.isRolledOut)
	u.writeConditions()
	u.before = map[string]*unstructured.Unstructured{}
	for _, o := range u.earlier.Objects {
		live, err := u.get(o)
		u.must(err)
		u.before[describe(o)] = live
	}
}

func permissionsOf(g generations.Generation) []legacy.Object {
	return slices.DeleteFunc(slices.Clone(g.Objects), func(o legacy.Object) bool {
		return o.GroupVersionKind().Group != rbacv1.GroupName
	})
}

func describe(o legacy.Object) string {
	return fmt.Sprintf("%s %s %s/%s", o.Side, o.GetKind(), o.GetNamespace(), o.GetName())
}

func (u *upgrade) on(o legacy.Object) (*cluster, collection) {
	resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	side := u.guest
	if o.Side == flavour.ControlPlane {
		side = u.management
	}
	return side, collection{resource, o.GetNamespace()}
}

func (u *upgrade) get(o legacy.Object) (*unstructured.Unstructured, error) {
	side, in := u.on(o)
	return side.of(in).Get(u.ctx(), o.GetName(), metav1.GetOptions{})
}

// install writes objects of the earlier generation in the same way as its operator.
func (u *upgrade) install(objects []legacy.Object) {
	u.t.Helper()
	for _, o := range objects {
		err := retry.RetryOnConflict(conflicts(), func() error {
			live, err := u.get(o)
			if apierrors.IsNotFound(err) {
				side, in := u.on(o)
				_, err = side.create(u.ctx(), in.resource, *o.Unstructured)
				return err
			}
			if err != nil {
				return err
			}
			return u.overwrite(o, live)
		})
		if err != nil {
			u.t.Fatalf("writing %s: %v", describe(o), err)
		}
	}
}

// overwrite replaces all fields except metadata, and adds labels and annotations. Like library-go,
// it creates objects of some kinds again if an immutable field differs.
func (u *upgrade) overwrite(o legacy.Object, live *unstructured.Unstructured) error {
	side, in := u.on(o)
	wanted := live.DeepCopy()
	for field, value := range o.Object {
		if field != "metadata" {
			wanted.Object[field] = value
		}
	}
	wanted.SetLabels(merged(live.GetLabels(), o.GetLabels()))
	wanted.SetAnnotations(merged(live.GetAnnotations(), o.GetAnnotations()))
	_, err := side.of(in).Update(u.ctx(), wanted, metav1.UpdateOptions{FieldManager: "csi-operator"})
	recreated := []string{"StorageClass", "CSIDriver", "ClusterRoleBinding", "RoleBinding"}
	if apierrors.IsInvalid(err) && slices.Contains(recreated, o.GetKind()) {
		if err := side.of(in).Delete(u.ctx(), o.GetName(), metav1.DeleteOptions{}); err != nil {
			return err
		}
		_, err = side.create(u.ctx(), in.resource, *o.Unstructured)
	}
	return err
}

func merged(all ...map[string]string) map[string]string {
	ret := map[string]string{}
	for _, each := range all {
		maps.Copy(ret, each)
	}
	return ret
}

// writeConditions replaces all conditions by the conditions that the earlier operator writes while
// the driver runs, and by the stale ones of older operators. Stale conditions have the status True.
func (u *upgrade) writeConditions() {
	u.t.Helper()
	stale := staleOf(append(slices.Clone(u.older), u.earlier))
	u.changeDriverStatus(func(status *opv1.ClusterCSIDriverStatus) {
		status.Conditions = nil
		for _, conditionType := range slices.Concat(u.earlier.Conditions.Kept, stale) {
			if strings.HasSuffix(conditionType, "Disabled") {
				continue // the driver runs
			}
			value := opv1.ConditionFalse
			if strings.HasSuffix(conditionType, opv1.OperatorStatusTypeAvailable) ||
				slices.Contains(stale, conditionType) {
				value = opv1.ConditionTrue
			}
			status.Conditions = append(status.Conditions, opv1.OperatorCondition{
				Type: conditionType, Status: value, Reason: "Earlier", Message: "of an earlier release",
				LastTransitionTime: metav1.Now(),
			})
		}
	})
}

// isRolledOut returns nil if all pods of the driver have the current templates and are available.
func (u *upgrade) isRolledOut() error {
	d, err := u.deployment()
	if err != nil {
		return err
	}
	desired := ptr.Deref(d.Spec.Replicas, 1)
	left := map[string][3]int64{d.Name: {
		d.Generation - d.Status.ObservedGeneration, int64(desired - d.Status.UpdatedReplicas),
		int64(desired - d.Status.AvailableReplicas),
	}}
	for _, name := range u.subject.Workloads[1:] {
		d, err := u.daemonSet(name)
		if err != nil {
			return err
		}
		desired := max(1, d.Status.DesiredNumberScheduled)
		left[name] = [3]int64{
			d.Generation - d.Status.ObservedGeneration, int64(desired - d.Status.UpdatedNumberScheduled),
			int64(desired - d.Status.NumberAvailable),
		}
	}
	for name, n := range left {
		if n != [3]int64{} {
			return fmt.Errorf("%s is not rolled out: %v", name, n)
		}
	}
	return nil
}

// templates returns how many pod templates each workload has had.
func (u *upgrade) templates() map[string]int {
	u.t.Helper()
	deployment, err := u.deployment()
	u.must(err)
	numbers := map[string]string{
		deployment.Name: deployment.Annotations["deployment.kubernetes.io/revision"],
	}
	for _, name := range u.subject.Workloads[1:] {
		daemonSet, err := u.daemonSet(name)
		u.must(err)
		numbers[name] = daemonSet.Annotations[appsv1.DeprecatedTemplateGeneration]
	}
	count := map[string]int{}
	for name, number := range numbers {
		count[name], err = strconv.Atoi(number)
		u.must(err)
	}
	return count
}

// TestUpgradeAndRollback replaces each earlier operator by ours, and ours by the earlier one.
func TestUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	eachUpgrade(t, func(u *upgrade) {
		deleted := leftoversOf(u.earlier.Name)
		if u.earlier.Name == "manila-4.17" {
			u.mustRemoveLeftoversWhileDisabled(deleted)
		}
		u.installDriver()
		watch := u.watchConditions()
		// The static objects are written before OpenStack accepts the credentials.
		answer := u.fault(simulator.Fault{
			Mode: simulator.Slow, Service: simulator.Identity, Method: http.MethodPost,
			Delay: 5 * time.Second,
		})
		u.startOperator()
		u.awaitAvailable()
		u.eventually(soon, func() error { return u.areGone(deleted) })
		u.awaitNoWrites()
		answer()
		u.mustHaveUpdatedInPlace(deleted)
		u.mustHaveOwnConditionsOnly()
		u.mustHaveStayedAvailable(watch)
		u.mustRollBack()
		u.startOperator()
		u.awaitAvailable()
		u.eventually(soon, func() error { return u.areGone(deleted) })
	})
}

// areGone returns nil if no object of the earlier operator or an older one has one of the names,
// and there is an event for each.
func (u *upgrade) areGone(names []string) error {
	objects := u.earlier.Objects
	for _, g := range u.older {
		objects = slices.Concat(objects, permissionsOf(g))
	}
	for _, o := range objects {
		if !slices.Contains(names, o.GetName()) {
			continue
		}
		if live, err := u.get(o); !apierrors.IsNotFound(err) {
			return errors.Join(err, fmt.Errorf("%s is still there: %v", describe(o), live))
		}
		if err := u.hasEvent(o.GetKind()+"Deleted", o.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// mustHaveUpdatedInPlace checks that the operator created no object again except StorageClasses, of
// which most fields are immutable, deleted only RBAC objects and Services, and replaced the pods of
// each workload once.
func (u *upgrade) mustHaveUpdatedInPlace(deleted []string) {
	u.t.Helper()
	for _, o := range u.earlier.Objects {
		before := u.before[describe(o)]
		after, err := u.get(o)
		if apierrors.IsNotFound(err) {
			if o.GroupVersionKind().Group != rbacv1.GroupName &&
				!slices.Contains(deleted, o.GetName()) {
				u.t.Errorf("the operator deleted %s", describe(o))
			}
			continue
		}
		u.must(err)
		if after.GetUID() != before.GetUID() && o.GetKind() != "StorageClass" {
			u.t.Errorf("the operator created %s again", describe(o))
		}
		if o.GetKind() == "Deployment" || o.GetKind() == "DaemonSet" {
			was, _, _ := unstructured.NestedMap(before.Object, "spec", "selector")
			is, _, _ := unstructured.NestedMap(after.Object, "spec", "selector")
			if diff := cmp.Diff(was, is); diff != "" {
				u.t.Errorf("the selector of %s changed (-before +after):\n%s", describe(o), diff)
			}
		}
	}
	want := map[string]int{}
	for _, name := range u.subject.Workloads {
		want[name] = 2 // the earlier operator's, and ours
	}
	if diff := cmp.Diff(want, u.templates()); diff != "" {
		u.t.Errorf("pod templates of each workload (-want +got):\n%s", diff)
	}
}

// mustHaveOwnConditionsOnly checks that the operator removed or updated every condition of the
// earlier operator.
func (u *upgrade) mustHaveOwnConditionsOnly() {
	u.t.Helper()
	all, err := u.conditions()
	u.must(err)
	for _, c := range all {
		assert.Check(u.t, c.Reason != "Earlier",
			"condition %s=%s of the earlier operator stays", c.Type, c.Status)
	}
	for _, conditionType := range u.earlier.Conditions.Kept {
		if _, found := all[conditionType]; !found && !strings.HasSuffix(conditionType, "Disabled") {
			u.t.Errorf("the operator does not write condition %s", conditionType)
		}
	}
}

// mustHaveStayedAvailable checks every version of the conditions.
func (u *upgrade) mustHaveStayedAvailable(watch *conditionWatch) {
	u.t.Helper()
	for _, conditions := range watch.end(u.scope) {
		assert.Assert(u.t, readiness.Of(conditions).IsOffered(u.subject.isManila()),
			"storage was not available with the conditions %+v", conditions)
	}
}

// mustRollBack replaces our operator by the earlier one, and removes our conditions with the
// documented command.
func (u *upgrade) mustRollBack() {
	u.t.Helper()
	u.stopOperator()
	u.older = nil // the operator removed these leftovers
	u.install(u.earlier.Objects)
	u.eventually(installed, u.isRolledOut)
	_, patch := documentedCommand(u.t)
	u.patch(clusterCSIDrivers(), "", u.subject.ClusterCSIDriver, patch, "status")
	if left, err := u.conditions(); err != nil || len(left) > 0 {
		u.t.Errorf("the conditions %v stay (%v)", left, err)
	}
	u.writeConditions()
	for _, o := range u.earlier.Objects {
		live, err := u.get(o)
		u.must(err)
		if workload := o.GroupVersionKind().Group == "apps"; workload &&
			live.GetUID() != u.before[describe(o)].GetUID() {
			u.t.Errorf("the rollback created %s again", describe(o))
		}
	}
}

// mustRemoveLeftoversWhileDisabled runs the operator in a cluster without workloads, with a cloud
// that does not offer Manila.
func (u *upgrade) mustRemoveLeftoversWhileDisabled(deleted []string) {
	u.t.Helper()
	u.install(permissionsOf(u.earlier))
	u.addTrueConditions("Earlier", "of an earlier release", u.stale...)
	u.startOperator()
	u.eventually(installed, func() error {
		return u.hasCondition(disabled, opv1.ConditionTrue, "NoShareTypes")
	})
	u.eventually(soon, func() error {
		errs := []error{u.areGone(deleted)}
		for _, conditionType := range u.stale {
			errs = append(errs, u.hasNoCondition(conditionType))
		}
		return errors.Join(errs...)
	})
	u.must(u.hasNoWorkloads())
	u.stopOperator()
}
