//go:build integration && long

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// hostedNamespaceOfMessages is the name of the control plane's namespace in messages.
const hostedNamespaceOfMessages = "namespace " + hostedNamespace + " of the management cluster"

// TestHyperShiftFollowsHostedControlPlane starts the operator without a HostedControlPlane, and
// without the permission to read one.
func TestHyperShiftFollowsHostedControlPlane(t *testing.T) {
	t.Parallel()
	o := options{Idle: true, Before: func(e *env) { e.deleteControlPlane(guestName) }}
	eachHosted(t, o, func(_ *testing.T, e *hostedEnv) {
		e.parts(
			part{"ReportsMissingRBAC", e.reportsMissingRBAC},
			part{"WaitsForHostedControlPlane", e.waitsForHostedControlPlane},
			part{"FollowsChanges", e.followsHostedControlPlane},
		)
	})
}

// followsHostedControlPlane checks that a change, or its removal, is one rollout.
func (e *hostedEnv) followsHostedControlPlane() {
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.isSpread(1) })
	e.awaitNoWrites()
	before, err := e.deployment()
	e.must(err)
	e.patchControlPlane(`{"controllerAvailabilityPolicy":"HighlyAvailable"}`)
	e.eventually(soon, func() error { return e.isSpread(2) })
	e.awaitAvailable()
	e.awaitNoWrites()
	after, err := e.deployment()
	e.must(err)
	e.must(checkEqual(before.Generation+1, after.Generation))
	e.patchControlPlane(`{"controllerAvailabilityPolicy":"SingleReplica"}`)
	e.eventually(prompt, func() error {
		after, err := e.deployment()
		if err == nil {
			err = checkEqual(before.Spec, after.Spec)
		}
		return err
	})
	e.awaitAvailable()
}

// isSpread returns nil if the wanted number of pods run on as many nodes of the management cluster.
func (e *env) isSpread(want int) error {
	pods, err := e.management.kube.CoreV1().Pods(hostedNamespace).List(e.ctx(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	nodes := map[string]bool{}
	for _, pod := range pods.Items {
		nodes[pod.Spec.NodeName] = true
	}
	if len(pods.Items) != want || len(nodes) != want {
		return fmt.Errorf("%d pods run on the nodes %v, want %d", len(pods.Items), nodes, want)
	}
	return nil
}

// hasOneDegraded returns nil if one *Degraded condition is True and its message contains all texts.
func (e *env) hasOneDegraded(texts ...string) error {
	degraded, err := e.degraded()
	if err != nil {
		return err
	}
	if len(degraded) != 1 {
		return fmt.Errorf("degraded are %v, want one condition", degraded)
	}
	return e.reports(degraded[0].Type, texts...)
}

func (e *env) deleteControlPlane(name string) {
	e.t.Helper()
	in := collection{hostedControlPlanes(), hostedNamespace}
	e.must(e.management.of(in).Delete(e.ctx(), name, metav1.DeleteOptions{}))
}

func (e *hostedEnv) waitsForHostedControlPlane() {
	e.mustNotDeploy("no HostedControlPlane")
	in := collection{hostedControlPlanes(), hostedNamespace}
	_, err := e.management.of(in).Create(e.ctx(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": in.resource.GroupVersion().String(), "kind": "HostedControlPlane",
		"metadata": map[string]any{"name": guestName}, "spec": map[string]any{},
	}}, metav1.CreateOptions{})
	e.must(err)
	e.awaitAvailable()
}

// mustNotDeploy checks that a condition contains the texts, and that no Deployment exists.
func (e *env) mustNotDeploy(texts ...string) {
	e.t.Helper()
	e.eventually(installed, func() error {
		return e.hasOneDegraded(append(texts, hostedNamespaceOfMessages)...)
	})
	if _, err := e.deployment(); ignoreNotFound(err) != nil || err == nil {
		e.t.Errorf("the Deployment exists, or getting it failed (%v)", err)
	}
}

// reportsMissingRBAC checks that the operator does not create a Deployment until it may read the
// HostedControlPlane.
func (e *hostedEnv) reportsMissingRBAC() {
	roles := e.management.kube.RbacV1().Roles(hostedNamespace)
	role, err := roles.Get(e.ctx(), e.subject.Name+"-role", metav1.GetOptions{})
	e.must(err)
	write := func(ctx context.Context, rules []rbacv1.PolicyRule) error {
		role.Rules = rules
		role.ResourceVersion = ""
		_, err := roles.Update(ctx, role, metav1.UpdateOptions{})
		return err
	}
	all := role.Rules
	e.afterwards(func(ctx context.Context) error { return write(ctx, all) })
	e.must(write(e.ctx(), slices.DeleteFunc(slices.Clone(all), func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, "hostedcontrolplanes")
	})))
	may := func(want bool) func() error {
		operator := account{e.management, hostedNamespace, e.subject.Name}
		return func() error {
			return operator.may(e.env, want, hostedNamespace,
				allow(hostedControlPlanes().Group, hostedControlPlanes().Resource, "list"))
		}
	}
	e.eventually(prompt, may(false))
	granted := time.Now().Add(cleanUp)
	e.allowed = func(r request) bool {
		return r.Resource == "hostedcontrolplanes" && r.Time.Before(granted)
	}
	e.startOperator()
	e.mustNotDeploy("reading HostedControlPlanes in", "is forbidden", "the operator's Role")
	e.must(write(e.ctx(), all))
	e.eventually(prompt, may(true))
	granted = time.Now()
}
