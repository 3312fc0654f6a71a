//go:build integration && long

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// hostedNamespaceOfMessages is the name of the control plane's namespace in messages.
const hostedNamespaceOfMessages = "namespace " + hostedNamespace + " of the management cluster"

// controlPlaneChange is a change of the HostedControlPlane that affects the pods of the control
// plane.
type controlPlaneChange struct {
	name, set, unset string
	check            func(before, after *appsv1.Deployment) error
}

func controlPlaneChanges() []controlPlaneChange {
	storage := corev1.Toleration{
		Key: "dedicated", Operator: corev1.TolerationOpEqual,
		Value: "storage", Effect: corev1.TaintEffectNoSchedule,
	}
	return []controlPlaneChange{
		{
			"nodeSelector", `{"nodeSelector":{"kubernetes.io/os":"linux","kubernetes.io/arch":"amd64"}}`,
			`{"nodeSelector":null}`,
			func(_, after *appsv1.Deployment) error {
				return checkEqual(map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
					after.Spec.Template.Spec.NodeSelector)
			},
		},
		{
			"tolerations", `{"tolerations":[{"key":"dedicated","operator":"Equal",` +
				`"value":"storage","effect":"NoSchedule"}]}`, `{"tolerations":null}`,
			func(before, after *appsv1.Deployment) error {
				return checkEqual(append(slices.Clone(before.Spec.Template.Spec.Tolerations), storage),
					after.Spec.Template.Spec.Tolerations)
			},
		},
		{
			"labels", `{"labels":{"team":"storage","app":"of-another",` +
				`"hypershift.openshift.io/hosted-control-plane":"of-another"}}`, `{"labels":null}`,
			func(before, after *appsv1.Deployment) error {
				want := map[string]string{"team": "storage"}
				for key, value := range before.Spec.Template.Labels { // the operator does not overwrite labels
					want[key] = value
				}
				return checkEqual(want, after.Spec.Template.Labels)
			},
		},
		{
			"availability", `{"controllerAvailabilityPolicy":"HighlyAvailable"}`,
			`{"controllerAvailabilityPolicy":"SingleReplica"}`,
			func(_, after *appsv1.Deployment) error {
				if *after.Spec.Replicas != 2 {
					return fmt.Errorf("the Deployment has %d replicas, want 2", *after.Spec.Replicas)
				}
				return hasAntiAffinity(after)
			},
		},
	}
}

// hasAntiAffinity returns nil if the Deployment's pods cannot run on the same node.
func hasAntiAffinity(d *appsv1.Deployment) error {
	apart := d.Spec.Template.Spec.Affinity.PodAntiAffinity
	want := []corev1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: d.Spec.Selector.MatchLabels},
		TopologyKey:   "kubernetes.io/hostname",
	}}
	return checkEqual(want, apart.RequiredDuringSchedulingIgnoredDuringExecution)
}

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
			part{"ChangesNothingWithoutHostedControlPlane", e.changesNothingWithoutHostedControlPlane},
		)
	})
}

// followsHostedControlPlane checks that each change is one rollout, and that removing it restores
// the pods.
func (e *hostedEnv) followsHostedControlPlane() {
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.isSpread(1) })
	for _, w := range controlPlaneChanges() {
		e.sub(w.name, func(t *testing.T) {
			e.awaitNoWrites()
			before, err := e.deployment()
			e.must(err)
			e.patchControlPlane(w.set)
			e.within(prompt, func() error { return e.deploymentHas(before, w.check) })
			e.awaitAvailable()
			e.must(e.deploymentHas(before, w.check))
			e.awaitNoWrites()
			after, err := e.deployment()
			e.must(err)
			if after.Generation != before.Generation+1 {
				t.Errorf("the Deployment has generation %d after %d, want one change", after.Generation,
					before.Generation)
			}
			e.eventually(soon, func() error { return e.isSpread(int(*after.Spec.Replicas)) })
			e.patchControlPlane(w.unset)
			e.within(prompt, func() error {
				return e.deploymentHas(before, func(before, after *appsv1.Deployment) error {
					return checkEqual(before.Spec, after.Spec)
				})
			})
			e.awaitAvailable()
		})
	}
}

func (e *env) deploymentHas(
	before *appsv1.Deployment, check func(before, after *appsv1.Deployment) error,
) error {
	after, err := e.deployment()
	if err != nil {
		return err
	}
	return check(before, after)
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

// addControlPlane creates another HostedControlPlane.
func (e *hostedEnv) addControlPlane(name string) {
	e.t.Helper()
	object := unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedControlPlane",
		"spec": map[string]any{},
	}}
	object.SetNamespace(hostedNamespace)
	object.SetName(name)
	_, err := e.management.create(e.ctx(), hostedControlPlanes(), object)
	e.must(err)
}

func (e *env) deleteControlPlane(name string) {
	e.t.Helper()
	in := collection{hostedControlPlanes(), hostedNamespace}
	e.must(e.management.of(in).Delete(e.ctx(), name, metav1.DeleteOptions{}))
}

// changesNothingWithoutHostedControlPlane checks none, two, and a deleted HostedControlPlane: a
// condition says where and what happens, and the operator recovers.
func (e *hostedEnv) changesNothingWithoutHostedControlPlane() {
	e.awaitAvailable()
	since, before := e.awaitNoWrites(), e.workloads()
	p := e.operator
	stays := func(texts ...string) {
		e.t.Helper()
		e.eventually(soon, func() error {
			return e.hasOneDegraded(append(texts, hostedNamespaceOfMessages)...)
		})
		e.awaitNoWrites()
		e.must(e.sameGenerations(before))
	}
	e.addControlPlane("second")
	stays("2 HostedControlPlanes", guestName+", second", "delete all others")

	e.deleteControlPlane("second")
	e.eventually(soon, e.available)
	e.patchBesideController(hostedControlPlanes(), guestName,
		`{"metadata":{"finalizers":["example.com/slow"]}}`)
	e.deleteControlPlane(guestName)
	stays("HostedControlPlane "+guestName, "is being deleted")
	e.patchControlPlane(`{"labels":{"too":"late"}}`)
	e.awaitNoWrites()
	e.must(e.sameGenerations(before))

	e.patchBesideController(hostedControlPlanes(), guestName, `{"metadata":{"finalizers":null}}`)
	stays("no HostedControlPlane", "until there is one")

	e.addControlPlane(guestName)
	e.awaitAvailable()
	e.must(e.sameGenerations(before))
	e.expectNone("the operator deleted", e.requests(since, deletions))
	e.mustStillRun(p)
}

// sameGenerations returns nil if the generations of the workloads have not changed.
func (e *env) sameGenerations(before map[string]workload) error {
	for name, was := range before {
		now, err := e.workload(name)
		if err != nil {
			return err
		}
		if now.Generation != was.Generation {
			return fmt.Errorf("%s has generation %d after %d", name, now.Generation, was.Generation)
		}
	}
	return nil
}

func (e *hostedEnv) waitsForHostedControlPlane() {
	e.mustNotDeploy("no HostedControlPlane")
	e.addControlPlane(guestName)
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
