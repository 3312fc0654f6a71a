//go:build integration

package integration

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
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

func crds() schema.GroupVersionResource {
	return resource("apiextensions.k8s.io", "customresourcedefinitions")
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

// removeCRD deletes a CRD, waits until it is gone, and returns it. The cleanup recreates it.
func (e *env) removeCRD(name string) *unstructured.Unstructured {
	e.t.Helper()
	client := e.guest.dynamic.Resource(crds())
	crd, err := client.Get(e.ctx(), name, metav1.GetOptions{})
	e.must(err)
	e.must(client.Delete(e.ctx(), name, metav1.DeleteOptions{}))
	e.afterwards(func(ctx context.Context) error { return e.restoreCRD(ctx, crd) })
	e.eventually(soon, func() error {
		_, err := client.Get(e.ctx(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("CRD %s still exists (%w)", name, err)
	})
	return crd
}

// restoreCRD creates a CRD if it is missing and waits until its objects can be listed.
func (e *env) restoreCRD(ctx context.Context, crd *unstructured.Unstructured) error {
	fresh := crd.DeepCopy()
	unstructured.RemoveNestedField(fresh.Object, "status")
	_, err := e.guest.create(ctx, crds(), *fresh)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for _, o := range optionals() {
		if o.crd != crd.GetName() {
			continue
		}
		listable := func(ctx context.Context) (bool, error) {
			_, err := e.guest.of(o.collection).List(ctx, metav1.ListOptions{})
			return err == nil, nil
		}
		return wait.PollUntilContextTimeout(ctx, pollEvery, 20*time.Second, true, listable)
	}
	return nil
}
