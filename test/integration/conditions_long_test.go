//go:build integration && long

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/readiness"
)

const staticDegraded = "OpenStackManilaDriverGuestStaticResourcesControllerDegraded"

func TestConditionsDescribeProblemsOfTheCluster(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.parts(
		part{"SeveralErrorsAreOneStableMessage", e.reportsSeveralErrors},
		part{"OnlyRolloutsAreProgressing", e.reportsOnlyRollouts},
		part{"ReadyNamesWhatRefusesPods", e.explainsRefusedPods},
	)
}

// reportsSeveralErrors checks that one condition names all objects that cannot be written, in a
// stable order, and is written only once until the operator recovers.
func (e *env) reportsSeveralErrors() {
	e.awaitAvailable()
	e.awaitNoWrites()
	allow := e.denyOperatorWrites()
	e.delete(resource("rbac.authorization.k8s.io", "clusterrolebindings"), "", provisionerBinding)
	e.delete(resource("rbac.authorization.k8s.io", "clusterrolebindings"), "", privilegedNodeBinding)
	e.delete(resource("", "serviceaccounts"), operandNamespace, nodeAccount)
	e.delete(resource("policy", "poddisruptionbudgets"), operandNamespace, disruptionBudget)
	all := []string{
		"controller_pdb.yaml", "main_provisioner_binding.yaml",
		"node_privileged_binding.yaml", "node_sa.yaml",
	}
	e.eventually(soon, func() error {
		return e.hasCondition(staticDegraded, opv1.ConditionTrue, "SyncError", all...)
	})
	first := e.message(staticDegraded)
	if lines := strings.Count(first, "\n") + 1; lines != len(all) {
		e.t.Errorf("the message has %d lines, want %d:\n%s", lines, len(all), first)
	}

	e.eventually(soon, func() error {
		return e.hasCondition(ready, opv1.ConditionFalse, "SyncError", all...)
	})
	since := e.mark()
	attempts := func() []request {
		return e.requests(since, ofVerb("create"), ofResource("clusterrolebindings"),
			func(r request) bool {
				return r.Name == provisionerBinding || r.Name == ""
			})
	}
	e.eventually(installed, func() error {
		if n := len(attempts()); n < 6 { // for two objects
			return fmt.Errorf("there were %d more attempts, want 6", n)
		}
		return nil
	})
	if again := e.message(staticDegraded); again != first {
		e.t.Errorf("the message changed from\n%s\nto\n%s", first, again)
	}
	e.expectNone("the operator wrote the same failure again", e.requests(since, statusWrites))

	e.must(allow(e.ctx()))
	e.eventually(installed, func() error {
		return errors.Join(e.hasCondition(staticDegraded, opv1.ConditionFalse, ""), e.hasBinding(),
			e.hasDisruptionBudget())
	})
	e.awaitAvailable()
}

// reportsOnlyRollouts checks that drained nodes and failing pods are not reported as progress.
func (e *env) reportsOnlyRollouts() {
	e.awaitAvailable()
	e.awaitNoWrites()
	watch := e.watchConditions()
	e.drain("devcluster-worker-0")
	e.drain("devcluster-master-0")
	e.unready(nfsNodeName, "devcluster-worker-1")
	e.eventually(soon, func() error { return e.hasUnavailable(nfsNodeName) })
	e.awaitPolls(3)
	for _, c := range watch.conditions(e.scope) {
		if strings.HasSuffix(c.Type, opv1.OperatorStatusTypeProgressing) &&
			c.Status != opv1.ConditionFalse {
			e.t.Errorf("%s was %s without a rollout: %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
		if strings.HasSuffix(c.Type, opv1.OperatorStatusTypeDegraded) && c.Status != opv1.ConditionFalse {
			e.t.Errorf("%s was %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}

	watch = e.watchConditions()
	inputs()["metrics certificate"].put(e, "a new one")
	progressing := []string{
		"OpenStackManilaDriverControllerServiceControllerProgressing",
		"OpenStackManilaDriverNodeServiceControllerProgressing",
	}
	for _, name := range progressing {
		e.eventually(soon, func() error { return watch.has(name, opv1.ConditionTrue, "") })
	}
	e.awaitAvailable()
}

// explainsRefusedPods lets PodSecurity refuse the pods of the DaemonSets.
func (e *env) explainsRefusedPods() {
	e.awaitAvailable()
	in := collection{resource("", "namespaces"), ""}
	enforce := func(ctx context.Context, level string) error {
		return e.guest.patch(ctx, in, operandNamespace,
			`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"`+level+`"}}}`)
	}
	e.must(enforce(e.ctx(), "restricted"))
	e.afterwards(func(ctx context.Context) error { return enforce(ctx, "privileged") })
	e.must(e.guest.kube.CoreV1().Pods(operandNamespace).DeleteCollection(e.ctx(),
		metav1.DeleteOptions{}, metav1.ListOptions{}))
	const longest = 2 * time.Minute // controllers of workloads sync once a minute
	e.eventually(longest, func() error {
		return e.hasCondition(ready, opv1.ConditionFalse, "FailedCreate", "DaemonSet "+nfsNodeName+
			" has too few pods: no more can be created: violates PodSecurity")
	})
	e.must(enforce(e.ctx(), "privileged"))
	for _, name := range []string{nodeName, nfsNodeName} { // the next attempt may be minutes away
		e.delete(resource("apps", "daemonsets"), operandNamespace, name)
	}
	e.awaitAvailable()
}

// conditions stops the watch and returns the conditions of all versions one after the other.
func (w *conditionWatch) conditions(s *scope) []opv1.OperatorCondition {
	s.t.Helper()
	conditions := slices.Concat(w.end(s)...)
	if len(conditions) == 0 {
		s.t.Fatal("the watch recorded no condition")
	}
	return conditions
}

// drain deletes the driver's pods of a node and makes the node unschedulable until the test ends.
func (e *env) drain(node string) {
	e.t.Helper()
	nodes := resource("", "nodes")
	e.patch(nodes, "", node, `{"spec":{"unschedulable":true}}`)
	e.afterwards(func(ctx context.Context) error {
		now, err := e.guest.kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Spec.Unschedulable = false
		_, err = e.guest.kube.CoreV1().Nodes().Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
	pods := e.podsOn("", node)
	if len(pods) == 0 {
		e.t.Fatalf("no pods of the driver are on %s", node)
	}
	for _, pod := range pods {
		e.delete(resource("", "pods"), operandNamespace, pod.Name)
	}
}

// unready makes a workload's pod on a node unready.
func (e *env) unready(workload, node string) {
	e.t.Helper()
	pods := e.podsOn(workload, node)
	if len(pods) != 1 {
		e.t.Fatalf("%d pods of %s are on %s, want one", len(pods), workload, node)
	}
	pod := pods[0].DeepCopy()
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(time.Now())
		}
	}
	_, err := e.guest.kube.CoreV1().Pods(operandNamespace).
		UpdateStatus(e.ctx(), pod, metav1.UpdateOptions{})
	e.must(err)
}

// podsOn returns the driver's pods on a node: those of one workload, or all.
func (e *env) podsOn(workload, node string) []corev1.Pod {
	e.t.Helper()
	pods, err := e.guest.kube.CoreV1().Pods(operandNamespace).List(e.ctx(), metav1.ListOptions{})
	e.must(err)
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Spec.NodeName != node || workload != "" && !strings.HasPrefix(pod.Name, workload+"-")
	})
}

func (e *env) hasUnavailable(daemonSet string) error {
	d, err := e.guest.kube.AppsV1().DaemonSets(operandNamespace).
		Get(e.ctx(), daemonSet, metav1.GetOptions{})
	if err == nil && d.Status.NumberUnavailable == 0 {
		err = fmt.Errorf("no pod of %s is unavailable", daemonSet)
	}
	return err
}

// has returns nil if Conditions.Has did in any version.
func (w *conditionWatch) has(
	conditionType string, status opv1.ConditionStatus, reason string, texts ...string,
) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, c := range slices.Concat(w.versions...) {
		version := readiness.Of([]opv1.OperatorCondition{c})
		if version.Has(conditionType, status, reason, texts...) == nil {
			return nil
		}
	}
	return fmt.Errorf("%s has never been %s with reason %q and %q", conditionType, status, reason,
		texts)
}

// message returns the message of a condition.
func (e *env) message(conditionType string) string {
	e.t.Helper()
	all, err := e.conditions()
	e.must(err)
	return all[conditionType].Message
}
