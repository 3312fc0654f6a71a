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

// optional is an object whose kind a cluster may lack.
type optional struct {
	crd       string
	resource  schema.GroupVersionResource
	namespace string
	name      string
	condition string
}

func optionals() map[string]optional {
	return map[string]optional{
		"VolumeSnapshotClass": {
			crd:       "volumesnapshotclasses.snapshot.storage.k8s.io",
			resource:  resource("snapshot.storage.k8s.io", "volumesnapshotclasses"),
			name:      "csi-manila-standard",
			condition: "OpenStackManilaDriverVolumeSnapshotClassControllerDegraded",
		},
		"ServiceMonitor": {
			crd:       "servicemonitors.monitoring.coreos.com",
			resource:  resource("monitoring.coreos.com", "servicemonitors"),
			namespace: operandNamespace,
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
	return e.dynamic.Resource(o.resource).Namespace(o.namespace).Get(e.ctx(), o.name, metav1.GetOptions{})
}

// removeCRD deletes a CRD, waits until it is gone, and returns it. It comes back after the test at the latest.
func (e *env) removeCRD(name string) *unstructured.Unstructured {
	e.t.Helper()
	crd, err := e.dynamic.Resource(crds()).Get(e.ctx(), name, metav1.GetOptions{})
	e.must(err)
	e.must(e.dynamic.Resource(crds()).Delete(e.ctx(), name, metav1.DeleteOptions{}))
	e.afterwards(func(ctx context.Context) error { return e.restoreCRD(ctx, crd) })
	e.eventually(soon, func() error {
		_, err := e.dynamic.Resource(crds()).Get(e.ctx(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("CRD %s is still there (%w)", name, err)
	})
	return crd
}

// restoreCRD creates a CRD unless it is there, and waits until its objects can be listed.
func (e *env) restoreCRD(ctx context.Context, crd *unstructured.Unstructured) error {
	fresh := crd.DeepCopy()
	unstructured.RemoveNestedField(fresh.Object, "status")
	if _, err := e.create(ctx, crds(), *fresh); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for _, o := range optionals() {
		if o.crd != crd.GetName() {
			continue
		}
		return wait.PollUntilContextTimeout(ctx, pollEvery, 20*time.Second, true, func(ctx context.Context) (bool, error) {
			_, err := e.dynamic.Resource(o.resource).List(ctx, metav1.ListOptions{})
			return err == nil, nil
		})
	}
	return nil
}
