//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/readiness"
)

func (e *env) driver() (*opv1.ClusterCSIDriver, error) {
	return e.guest.openst.OperatorV1().ClusterCSIDrivers().
		Get(e.ctx(), e.subject.ClusterCSIDriver, metav1.GetOptions{})
}

// conflicts returns how often, and after which delay, a write is repeated that another program
// preceded: operators write the status often while they start.
func conflicts() wait.Backoff {
	return wait.Backoff{Steps: 100, Duration: 20 * time.Millisecond, Jitter: 1}
}

// changeDriver changes the ClusterCSIDriver's spec.
func (e *env) changeDriver(change func(*opv1.ClusterCSIDriver)) {
	e.t.Helper()
	e.must(retry.RetryOnConflict(conflicts(), func() error {
		driver, err := e.driver()
		if err != nil {
			return err
		}
		change(driver)
		_, err = e.guest.openst.OperatorV1().ClusterCSIDrivers().
			Update(e.ctx(), driver, metav1.UpdateOptions{FieldManager: administrator})
		return err
	}))
}

// changeDriverStatus updates the ClusterCSIDriver's status, as operators of earlier releases do.
func (e *env) changeDriverStatus(change func(*opv1.ClusterCSIDriverStatus)) {
	e.t.Helper()
	e.must(retry.RetryOnConflict(conflicts(), func() error {
		driver, err := e.driver()
		if err != nil {
			return err
		}
		change(&driver.Status)
		_, err = e.guest.openst.OperatorV1().ClusterCSIDrivers().
			UpdateStatus(e.ctx(), driver, metav1.UpdateOptions{FieldManager: "csi-operator"})
		return err
	}))
}

// addTrueConditions adds conditions to the status, as if an earlier operator had left them.
func (e *env) addTrueConditions(reason, message string, types ...string) {
	e.t.Helper()
	e.changeDriverStatus(func(status *opv1.ClusterCSIDriverStatus) {
		for _, conditionType := range types {
			status.Conditions = append(status.Conditions, opv1.OperatorCondition{
				Type: conditionType, Status: opv1.ConditionTrue, Reason: reason, Message: message,
				LastTransitionTime: metav1.Now(),
			})
		}
	})
}

// touchDriver changes an annotation of the ClusterCSIDriver. The event triggers every controller.
func (e *env) touchDriver(value string) {
	e.t.Helper()
	e.patch(clusterCSIDrivers(), "", e.subject.ClusterCSIDriver,
		fmt.Sprintf(`{"metadata":{"annotations":{"touched":%q}}}`, value))
}

// conditions returns the conditions of the ClusterCSIDriver.
func (e *env) conditions() (readiness.Conditions, error) {
	driver, err := e.driver()
	if err != nil {
		return nil, err
	}
	return readiness.Of(driver.Status.Conditions), nil
}

// hasCondition returns nil if Conditions.Has does.
func (e *env) hasCondition(
	conditionType string, status opv1.ConditionStatus, reason string, texts ...string,
) error {
	all, err := e.conditions()
	if err != nil {
		return err
	}
	return all.Has(conditionType, status, reason, texts...)
}

// reports returns nil if the condition is True and its message contains all texts.
func (e *env) reports(conditionType string, texts ...string) error {
	return e.hasCondition(conditionType, opv1.ConditionTrue, "", texts...)
}

// hasNoCondition returns nil if no condition has the type.
func (e *env) hasNoCondition(conditionType string) error {
	all, err := e.conditions()
	if err != nil {
		return err
	}
	if c, found := all[conditionType]; found {
		return fmt.Errorf("there is condition %s=%s, reason %s (%s); want none",
			c.Type, c.Status, c.Reason, c.Message)
	}
	return nil
}

// degraded returns the *Degraded conditions that are True, sorted by type.
func (e *env) degraded() ([]opv1.OperatorCondition, error) {
	all, err := e.conditions()
	found := all.WithSuffix(opv1.OperatorStatusTypeDegraded)
	return slices.DeleteFunc(found, func(c opv1.OperatorCondition) bool {
		return c.Status != opv1.ConditionTrue
	}), err
}

// notDegraded returns nil if no *Degraded condition is True.
func (e *env) notDegraded() error {
	all, err := e.conditions()
	if err != nil {
		return err
	}
	return all.NoneTrue(opv1.OperatorStatusTypeDegraded)
}

// available returns nil if Conditions.Available does.
func (e *env) available() error {
	all, err := e.conditions()
	if err != nil {
		return err
	}
	return all.Available(len(e.subject.Workloads))
}

// awaitAvailable waits until the driver is available and the operator has recorded that in the
// annotations of the DaemonSets, so that a test that expects no writes does not see this one.
func (e *env) awaitAvailable() {
	e.t.Helper()
	e.eventually(installed, e.available)
	e.eventually(installed, e.hasStableGenerations)
}

// hasStableGenerations returns nil if each DaemonSet of the driver has library-go's annotation that
// its generation is rolled out. The operator writes it only while it is managed.
func (e *env) hasStableGenerations() error {
	driver, err := e.driver()
	if err != nil || driver.Spec.ManagementState != opv1.Managed {
		return err
	}
	for _, name := range e.subject.Workloads[1:] {
		daemonSet, err := e.daemonSet(name)
		if err != nil {
			return err
		}
		stable := daemonSet.Annotations["storage.openshift.io/stable-generation"]
		if stable != strconv.FormatInt(daemonSet.Generation, 10) {
			return fmt.Errorf("DaemonSet %s has generation %d, but its annotation contains %q",
				name, daemonSet.Generation, stable)
		}
	}
	return nil
}

// classes returns the StorageClasses of the driver by name.
func (e *env) classes() (map[string]storagev1.StorageClass, error) {
	all, err := e.guest.kube.StorageV1().StorageClasses().List(e.ctx(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	classes := map[string]storagev1.StorageClass{}
	for _, class := range all.Items {
		if class.Provisioner == e.subject.ClusterCSIDriver {
			classes[class.Name] = class
		}
	}
	return classes, nil
}

// hasClasses returns nil if the driver's StorageClasses have exactly these names.
func (e *env) hasClasses(names ...string) error {
	classes, err := e.classes()
	if err != nil {
		return err
	}
	found := slices.Sorted(maps.Keys(classes))
	slices.Sort(names)
	if !slices.Equal(found, names) {
		return fmt.Errorf("StorageClasses are %v, want %v", found, names)
	}
	return nil
}

// hasNoWorkloads returns nil if no workload of the driver exists.
func (e *env) hasNoWorkloads() error {
	for _, c := range e.clusters() {
		added, err := c.store.Added(e.ctx())
		if err != nil {
			return err
		}
		for _, key := range added {
			if strings.HasPrefix(key, "deployments/") || strings.HasPrefix(key, "daemonsets/") {
				return fmt.Errorf("there is %s, want no workloads", key)
			}
		}
	}
	return nil
}

// events returns the events in the operators' namespace of the guest cluster that have the reason.
// Without a reason it returns all.
func (e *env) events(ctx context.Context, reason string) ([]corev1.Event, error) {
	all, err := e.guest.kube.CoreV1().Events(operatorNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all.Items, func(event corev1.Event) bool {
		return reason != "" && event.Reason != reason
	}), nil
}

// hasEvent returns nil if there is an event with the reason and a message that contains all texts.
func (e *env) hasEvent(reason string, texts ...string) error {
	events, err := e.events(e.ctx(), reason)
	if err != nil {
		return err
	}
	for _, event := range events {
		if !slices.ContainsFunc(texts, func(text string) bool {
			return !strings.Contains(event.Message, text)
		}) {
			return nil
		}
	}
	return fmt.Errorf("there is no event %s with %q in its message", reason, texts)
}
