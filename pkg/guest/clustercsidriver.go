package guest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
)

// StorageClassState returns spec.storageClassState of a ClusterCSIDriver in a cache, and Managed if
// it is not in the cache. Messages call it object.
func StorageClassState(store cache.Store, driver, object string) (opv1.StorageClassStateName,
	error,
) {
	obj, found, err := store.GetByKey(driver)
	if err != nil || !found {
		return opv1.ManagedStorageClass, err
	}
	read, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return "", fmt.Errorf("the cache of %s contains a %T", object, obj)
	}
	const field = "spec.storageClassState"
	fault := &FieldError{
		Object: object, Field: field, Problem: "is not a string",
		Fix: "set it to Managed, Unmanaged or Removed",
	}
	value, found, err := unstructured.NestedString(read.Object, "spec", "storageClassState")
	if err != nil {
		return "", fault
	}
	state := opv1.StorageClassStateName(value)
	if !found || state == "" {
		return opv1.ManagedStorageClass, nil
	}
	switch state {
	case opv1.ManagedStorageClass, opv1.UnmanagedStorageClass, opv1.RemovedStorageClass:
		return state, nil
	default:
		fault.Problem = "is " + quote(value)
		return "", fault
	}
}

// OnlyDriver returns the transform of an informer of ClusterCSIDrivers. It keeps only the driver's
// own, and one empty object in place of all others.
func OnlyDriver(name string) cache.TransformFunc {
	return func(obj any) (any, error) {
		object, ok := obj.(*unstructured.Unstructured)
		if ok && object.GetName() != name {
			return &unstructured.Unstructured{}, nil
		}
		return obj, nil
	}
}
