//go:build integration

package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
)

const (
	provisionerBinding = "openstack-manila-csi-main-provisioner-binding"
	metricsService     = "manila-csi-driver-controller-metrics"
	disruptionBudget   = "openstack-manila-csi-controllerplugin-pdb"
	nodeAccount        = "manila-csi-driver-node-sa"
)

func (e *env) setManagementState(state opv1.ManagementState) {
	e.t.Helper()
	e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.ManagementState = state })
}

// writesNothingWhileUnmanaged checks that Managed reverts all changes.
func (e *env) writesNothingWhileUnmanaged() {
	e.awaitAvailable()
	want := e.passwordTranslation()
	e.setManagementState(opv1.Unmanaged)
	since := e.awaitNoWrites()

	e.patch(resource("apps", "deployments"), operandNamespace, controllerName,
		`{"spec":{"replicas":1}}`)
	e.patch(resource("apps", "daemonsets"), operandNamespace, nodeName,
		`{"spec":{"template":{"spec":{"priorityClassName":null}}}}`)
	e.patch(secrets(), operandNamespace, loginSecret, `{"stringData":{"os-region":"elsewhere"}}`)
	e.delete(resource("rbac.authorization.k8s.io", "clusterrolebindings"), "", provisionerBinding)
	e.delete(resource("storage.k8s.io", "storageclasses"), "", "csi-manila-default")
	e.delete(resource("storage.k8s.io", "csidrivers"), "", driverName)
	e.awaitNoWritesFor(3 * time.Second)
	e.expectNone("the operator wrote while Unmanaged", e.writes(since))

	e.setManagementState(opv1.Managed)
	e.eventually(soon, func() error {
		deployment, err := e.deployment()
		if err != nil {
			return err
		}
		node, err := e.workload(nodeName)
		if err != nil {
			return err
		}
		if replicas := *deployment.Spec.Replicas; replicas != 2 ||
			node.Pod.PriorityClassName != "system-node-critical" {
			return fmt.Errorf("the workloads have %d replicas and priority %q, want them reverted", replicas,
				node.Pod.PriorityClassName)
		}
		_, bindingErr := e.guest.kube.RbacV1().ClusterRoleBindings().
			Get(e.ctx(), provisionerBinding, metav1.GetOptions{})
		_, driverErr := e.guest.kube.StorageV1().CSIDrivers().
			Get(e.ctx(), driverName, metav1.GetOptions{})
		return errors.Join(e.hasTranslation(want), e.hasClasses("csi-manila-default"), bindingErr,
			driverErr)
	})
	e.awaitAvailable()
}

// refusesRemoved checks that a condition says so and that nothing is deleted.
func (e *env) refusesRemoved() {
	e.awaitAvailable()
	since, before := e.awaitNoWrites(), e.workloads()
	e.setManagementState(opv1.Removed)
	e.eventually(prompt, func() error {
		return e.hasCondition("ManagementStateDegraded", opv1.ConditionTrue, "Removed")
	})
	e.must(e.reports("ManagementStateDegraded", "Removed is not supported",
		"Set spec.managementState of ClusterCSIDriver "+driverName+" to Managed"))
	e.awaitNoWritesFor(2 * time.Second)
	e.expectNone("the operator deleted", e.requests(since, deletions))
	e.mustHaveWorkloads(before)
	e.setManagementState(opv1.Managed)
	e.eventually(prompt, func() error {
		return e.hasCondition("ManagementStateDegraded", opv1.ConditionFalse, "")
	})
}

// repairedObject is a static object of the driver and a check of its content.
type repairedObject struct {
	group, resource, namespace, name string
	// edits are changes that the operator must revert.
	edits []string
	check func() error
}

func (e *env) repairedObjects() map[string]repairedObject {
	return map[string]repairedObject{
		"ClusterRoleBinding": {
			"rbac.authorization.k8s.io", "clusterrolebindings", "", provisionerBinding,
			[]string{`{"subjects":[]}`},
			e.hasBinding,
		},
		"Service": {
			"", "services", operandNamespace, metricsService,
			[]string{`{"spec":{"ports":[{"name":"other","port":1,"protocol":"TCP"}]}}`},
			e.hasService,
		},
		"PodDisruptionBudget": {
			"policy", "poddisruptionbudgets", operandNamespace, disruptionBudget,
			[]string{`{"spec":{"maxUnavailable":2}}`},
			e.hasDisruptionBudget,
		},
		"ServiceAccount": {"", "serviceaccounts", operandNamespace, nodeAccount, nil, e.hasNodeAccount},
		"CSIDriver": {
			"storage.k8s.io", "csidrivers", "", driverName,
			[]string{
				`{"metadata":{"annotations":{"csi.openshift.io/managed":"false"}}}`,
				`{"spec":{"fsGroupPolicy":"None"}}`, `{"spec":{"podInfoOnMount":true}}`,
			},
			e.hasCSIDriver,
		},
	}
}

func (e *env) repairsStaticObjects() {
	e.awaitAvailable()
	for kind, o := range e.repairedObjects() {
		objects := resource(o.group, o.resource)
		for _, edit := range o.edits {
			e.sub(kind+" edited", func(*testing.T) {
				e.eventually(prompt, o.check)
				e.patch(objects, o.namespace, o.name, edit)
				e.eventually(prompt, o.check)
			})
		}
		e.sub(kind+" deleted", func(*testing.T) {
			e.eventually(prompt, o.check)
			e.delete(objects, o.namespace, o.name)
			e.eventually(prompt, o.check)
		})
	}
	e.eventually(soon, e.notDegraded)
}

func (e *env) hasNodeAccount() error {
	_, err := e.guest.kube.CoreV1().ServiceAccounts(operandNamespace).
		Get(e.ctx(), nodeAccount, metav1.GetOptions{})
	return err
}

func (e *env) hasBinding() error {
	binding, err := e.guest.kube.RbacV1().ClusterRoleBindings().
		Get(e.ctx(), provisionerBinding, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return checkEqual([]rbacv1.Subject{{
		Kind: "ServiceAccount", Namespace: operandNamespace, Name: controllerAccount,
	}}, binding.Subjects)
}

func (e *env) hasService() error {
	service, err := e.guest.kube.CoreV1().Services(operandNamespace).
		Get(e.ctx(), metricsService, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var ports []int32
	for _, port := range service.Spec.Ports {
		ports = append(ports, port.Port)
	}
	slices.Sort(ports)
	return checkEqual([]int32{9203, 9204, 9205}, ports)
}

func (e *env) hasDisruptionBudget() error {
	budget, err := e.guest.kube.PolicyV1().PodDisruptionBudgets(operandNamespace).
		Get(e.ctx(), disruptionBudget, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := budget.Spec.MaxUnavailable; got == nil || got.IntValue() != 1 {
		return fmt.Errorf("maxUnavailable of %s is %v, want 1", disruptionBudget, got)
	}
	return nil
}

func TestObjectsAreMaintained(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Env: []string{"CSI_FSGROUP_POLICY=File"}})
	e.parts(
		part{"RecreatesOptionalObjects", e.recreatesOptionalObjects},
		part{"AcceptsMonitoring", e.acceptsMonitoring},
		part{"KeepsDeletionPolicy", e.keepsDeletionPolicy},
		part{"RepairsStaticObjects", e.repairsStaticObjects},
		part{"RefusesRemoved", e.refusesRemoved},
		part{"WritesNothingWhileUnmanaged", e.writesNothingWhileUnmanaged},
	)
}

// hasCSIDriver returns nil if the CSIDriver has the policy of CSI_FSGROUP_POLICY.
func (e *env) hasCSIDriver() error {
	driver, err := e.guest.kube.StorageV1().CSIDrivers().Get(e.ctx(), driverName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return checkEqual([]any{"true", storagev1.FileFSGroupPolicy, false}, []any{
		driver.Annotations["csi.openshift.io/managed"], ptr.Deref(driver.Spec.FSGroupPolicy, ""),
		*driver.Spec.PodInfoOnMount,
	})
}
