//go:build integration

package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"
)

// TestOptionalKindComesAndGoes: an object of a kind that the cluster lacks is no error (faults 99, 100); it is made when the
// kind arrives, and the kind's end is no error either.
func TestOptionalKindComesAndGoes(t *testing.T) {
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
			e.within(prompt, func() error { _, err := o.get(e); return err })
			e.must(e.guest.dynamic.Resource(crds()).Delete(e.ctx(), o.crd, metav1.DeleteOptions{}))
			e.eventually(soon, func() error {
				_, err := o.get(e)
				if apierrors.IsNotFound(err) {
					return nil
				}
				return err
			})
			e.touchDriver("1") // a sync without the kind
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

// TestOptionalObjectComesBack: a deleted VolumeSnapshotClass or ServiceMonitor is made again, with the same content.
func TestOptionalObjectComesBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	for name, o := range optionals() {
		e.sub(name, func(t *testing.T) {
			// Available does not wait for what only a CRD brings.
			e.within(prompt, func() error { _, err := o.get(e); return err })
			first, err := o.get(e)
			e.must(err)
			e.must(e.guest.dynamic.Resource(o.resource).Namespace(o.namespace).Delete(e.ctx(), o.name, metav1.DeleteOptions{}))
			// No events tell of it; any event of the ClusterCSIDriver does, and else the resync.
			e.patch(clusterCSIDrivers(), "", driverName, `{"metadata":{"annotations":{"touched":"`+name+`"}}}`)
			e.within(prompt, func() error { _, err := o.get(e); return err })
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
