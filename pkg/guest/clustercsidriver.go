package guest

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
)

// ConditionInstallation is the type of the condition about the installation of the operator.
const ConditionInstallation = "InstallationValid"

// StorageClassState returns the field of the spec of a ClusterCSIDriver. Messages call it object.
func StorageClassState(spec map[string]any, object string) (opv1.StorageClassStateName, error) {
	value, _, err := unstructured.NestedString(spec, "storageClassState")
	fault := &FieldError{
		Object: object, Field: "spec.storageClassState", Problem: "is " + quote(value),
		Fix: "set it to Managed, Unmanaged or Removed",
	}
	if err != nil {
		fault.Problem = "is not a string"
		return "", fault
	}
	switch state := opv1.StorageClassStateName(value); state {
	case "":
		return opv1.ManagedStorageClass, nil
	case opv1.ManagedStorageClass, opv1.UnmanagedStorageClass, opv1.RemovedStorageClass:
		return state, nil
	}
	return "", fault
}

// RecordedClusterID returns status.clusterID of the object of a driver. Messages call it object.
func RecordedClusterID(store cache.Store, driver, object string) (string, error) {
	obj, _, err := store.GetByKey(driver)
	id := ""
	if read, ok := obj.(*unstructured.Unstructured); ok {
		id, _, _ = unstructured.NestedString(read.Object, "status", "clusterID") // "" is a fault, too
	}
	c := &checks{object: object}
	c.pattern("status.clusterID", id, maxClusterID, isClusterID, "only the operator writes it, with "+
		"the present CustomResourceDefinition: read the condition "+ConditionInstallation)
	return id, errors.Join(append(c.faults, err)...)
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
