//go:build integration && long

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
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

// TestOperatorFollowsCRDs starts an operator without the CRD of an optional object.
func TestOperatorFollowsCRDs(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Idle: true})
	o := optionals()["ServiceMonitor"]
	removed := o.removeCRD(e)
	watch := e.watchConditions()
	e.startOperator()
	e.awaitAvailable()
	e.followsCRD(o, removed)
	versions := watch.end(e.scope)
	assert.Assert(t, len(versions) != 0, "the watch recorded no condition")
	for _, c := range slices.Concat(versions...) {
		if c.Type == o.condition && c.Status != opv1.ConditionFalse {
			t.Errorf("%s was %s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
}

// followsCRD checks that a missing CRD is no error, and that the object is created when the CRD
// arrives.
func (e *env) followsCRD(o optional, crd *unstructured.Unstructured) {
	e.eventually(soon, func() error { return e.hasCondition(o.condition, opv1.ConditionFalse, "") })
	e.must(o.restoreCRD(e.ctx(), e, crd))
	e.eventually(prompt, func() error { return o.exists(e) })
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
