//go:build integration && long

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	opv1 "github.com/openshift/api/operator/v1"
)

// removeCRD deletes the CRD, waits until it is gone, and returns it. The cleanup recreates it.
func (o optional) removeCRD(e *env) *unstructured.Unstructured {
	e.t.Helper()
	client := e.guest.dynamic.Resource(crds())
	crd, err := client.Get(e.ctx(), o.crd, metav1.GetOptions{})
	e.must(err)
	e.must(client.Delete(e.ctx(), o.crd, metav1.DeleteOptions{}))
	e.afterwards(func(ctx context.Context) error { return o.restoreCRD(ctx, e, crd) })
	e.eventually(soon, func() error {
		_, err := client.Get(e.ctx(), o.crd, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("CRD %s still exists (%w)", o.crd, err)
	})
	return crd
}

// restoreCRD creates the CRD if it is missing and waits until its objects can be listed.
func (o optional) restoreCRD(
	ctx context.Context, e *env, crd *unstructured.Unstructured,
) error {
	fresh := crd.DeepCopy()
	unstructured.RemoveNestedField(fresh.Object, "status")
	_, err := e.guest.create(ctx, crds(), *fresh)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	listable := func(ctx context.Context) (bool, error) {
		_, err := e.guest.of(o.collection).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	}
	return wait.PollUntilContextTimeout(ctx, pollEvery, cleanUp, true, listable)
}

// TestOperatorFollowsCRDs starts an operator without the CRDs of optional objects, and without the
// images for the CRD of CSI-Addons.
func TestOperatorFollowsCRDs(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Idle: true})
	e.installAddonsCRD()
	removed := map[string]*unstructured.Unstructured{}
	for name, o := range optionals() {
		removed[name] = o.removeCRD(e)
	}
	watch := e.watchConditions()
	// Until the watch reports that a CRD is being deleted, the operator may create the object again.
	const terminating = "create not allowed while custom resource definition is terminating"
	e.allowed = func(r request) bool {
		return r.Verb == "create" && r.Resource == optionals()["ServiceMonitor"].resource.Resource
	}
	e.startOperator()
	e.awaitAvailable()
	for name, o := range optionals() {
		e.sub(name, func(*testing.T) { e.followsCRD(o, removed[name]) })
	}
	for _, c := range watch.conditions(e.scope) {
		for _, o := range optionals() {
			if c.Type == o.condition && c.Status != opv1.ConditionFalse &&
				!strings.Contains(c.Message, terminating) {
				t.Errorf("%s was %s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
	e.parts(part{"CSIAddonsNeedBothImages", e.addonsNeedBothImages})
}

// followsCRD checks that a missing CRD is no error, and that the object is created when the CRD
// arrives.
func (e *env) followsCRD(o optional, crd *unstructured.Unstructured) {
	e.eventually(soon, func() error { return e.hasCondition(o.condition, opv1.ConditionFalse, "") })
	e.must(o.restoreCRD(e.ctx(), e, crd))
	e.within(prompt, func() error { return o.exists(e) })
	e.must(e.guest.dynamic.Resource(crds()).Delete(e.ctx(), o.crd, metav1.DeleteOptions{}))
	e.eventually(soon, func() error {
		if err := o.exists(e); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the object still exists (%w)", err)
		}
		return nil
	})
	e.touchDriver(o.name) // triggers a sync without the CRD
	e.awaitPolls(2)
	e.must(e.notDegraded())
}

// addonsNeedBothImages checks that the operator names an image that is missing, and adds nothing.
func (e *env) addonsNeedBothImages() {
	e.mustRunWithoutAddons()
	for i, given := range addonsImages() {
		e.options.Env = []string{given}
		e.restartOperator()
		e.mustRunWithoutAddons()
		missing, _, _ := strings.Cut(addonsImages()[1-i], "=")
		if want := "environment variable " + missing + " is missing"; !strings.Contains(e.log(), want) {
			e.t.Errorf("the log does not contain %q", want)
		}
	}
}

func (e *env) mustRunWithoutAddons() {
	e.t.Helper()
	e.awaitAvailable()
	e.awaitNoWrites()
	e.must(e.rolledOut(e.workloads(), 0, false))
	e.must(e.nodesHaveAddonsPermissions(false))
	e.must(e.hasNoCondition("ManilaCSIAddonsActive"))
}
