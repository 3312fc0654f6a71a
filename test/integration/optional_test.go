//go:build integration

package integration

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"
)

// TestOptionalObjectsFollowCRD checks that a missing CRD is no error, and that the object is
// created when the CRD arrives.
func TestOptionalObjectsFollowCRD(t *testing.T) {
	t.Parallel()
	for name, o := range optionals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, options{Idle: true})
			crd := e.removeCRD(o.crd)
			watch := e.watchConditions()
			e.startOperator()
			e.awaitAvailable()
			e.eventually(soon, func() error { return e.hasCondition(o.condition, opv1.ConditionFalse, "") })

			e.must(e.restoreCRD(e.ctx(), crd))
			e.within(prompt, func() error { return o.exists(e) })
			e.must(e.guest.dynamic.Resource(crds()).Delete(e.ctx(), o.crd, metav1.DeleteOptions{}))
			e.eventually(soon, func() error {
				if err := o.exists(e); !apierrors.IsNotFound(err) {
					return fmt.Errorf("the object still exists (%w)", err)
				}
				return nil
			})
			e.touchDriver("1") // triggers a sync without the CRD
			e.awaitPolls(2)
			e.must(e.notDegraded())
			for _, c := range watch.conditions(e.scope) {
				if c.Type == o.condition && c.Status != opv1.ConditionFalse {
					t.Errorf("%s was %s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
				}
			}
		})
	}
}

func TestOptionalObjectIsRecreated(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	for name, o := range optionals() {
		e.sub(name, func(t *testing.T) {
			// Available does not include objects of optional CRDs.
			e.within(prompt, func() error { return o.exists(e) })
			first, err := o.get(e)
			e.must(err)
			e.must(e.guest.of(o.collection).Delete(e.ctx(), o.name, metav1.DeleteOptions{}))
			// The operator does not watch the object. Any event of the ClusterCSIDriver triggers a sync.
			e.touchDriver(name)
			e.within(prompt, func() error { return o.exists(e) })
			second, err := o.get(e)
			e.must(err)
			for _, object := range []map[string]any{first.Object, second.Object} {
				delete(object, "metadata")
			}
			if diff := cmp.Diff(first.Object, second.Object); diff != "" {
				t.Errorf("the content differs (-first +second):\n%s", diff)
			}
		})
	}
}
