//go:build integration

package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	opv1 "github.com/openshift/api/operator/v1"
)

// optional is an object whose CRD may be missing in a cluster.
type optional struct {
	collection

	crd, name, condition string
}

func optionals() map[string]optional {
	return map[string]optional{
		"VolumeSnapshotClass": {
			collection: collection{resource("snapshot.storage.k8s.io", "volumesnapshotclasses"), ""},
			crd:        "volumesnapshotclasses.snapshot.storage.k8s.io",
			name:       "csi-manila-standard",
			condition:  "OpenStackManilaDriverVolumeSnapshotClassControllerDegraded",
		},
		"ServiceMonitor": {
			collection: collection{
				resource("monitoring.coreos.com", "servicemonitors"), operandNamespace,
			},
			crd:       "servicemonitors.monitoring.coreos.com",
			name:      "manila-csi-driver-controller-monitor",
			condition: "OpenStackManilaDriverServiceMonitorControllerDegraded",
		},
	}
}

// get returns the object.
func (o optional) get(e *env) (*unstructured.Unstructured, error) {
	return e.guest.of(o.collection).Get(e.ctx(), o.name, metav1.GetOptions{})
}

// exists returns nil if the object exists.
func (o optional) exists(e *env) error {
	_, err := o.get(e)
	return err
}

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

// TestOptionalObjectsFollowCRD checks that a missing CRD is no error, and that the object is
// created when the CRD arrives.
func TestOptionalObjectsFollowCRD(t *testing.T) {
	t.Parallel()
	for name, o := range optionals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, options{Idle: true})
			crd := o.removeCRD(e)
			watch := e.watchConditions()
			e.startOperator()
			e.awaitAvailable()
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

func (e *env) recreatesOptionalObjects() {
	e.awaitAvailable()
	for name, o := range optionals() {
		e.sub(name, func(*testing.T) {
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
				e.t.Errorf("the content differs (-first +second):\n%s", diff)
			}
		})
	}
}
