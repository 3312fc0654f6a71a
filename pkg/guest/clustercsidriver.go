package guest

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
)

// StorageClassState returns the field spec.storageClassState of a ClusterCSIDriver in a cache; one that is not there counts as
// Managed. place is what messages add to its name.
func StorageClassState(store cache.Store, driver, place string) (opv1.StorageClassStateName, error) {
	obj, found, err := store.GetByKey(driver)
	if err != nil || !found {
		return opv1.ManagedStorageClass, err
	}
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return "", fmt.Errorf("the cache of ClusterCSIDrivers contains a %T", obj)
	}
	const field = "spec.storageClassState"
	fault := &FieldError{
		Object: "ClusterCSIDriver " + driver + place, Field: field, Problem: "is no text", Fix: "set it to Managed, Unmanaged or Removed",
	}
	value, found, err := unstructured.NestedString(object.Object, "spec", "storageClassState")
	if err != nil {
		return "", fault
	}
	state := opv1.StorageClassStateName(value)
	if !found || state == "" {
		return opv1.ManagedStorageClass, nil
	}
	if !slices.Contains([]opv1.StorageClassStateName{opv1.ManagedStorageClass, opv1.UnmanagedStorageClass, opv1.RemovedStorageClass}, state) {
		fault.Problem = "is " + quote(value)
		return "", fault
	}
	return state, nil
}

// OnlyDriver returns the transform of an informer of ClusterCSIDrivers. Of those with other names it keeps the name. Of the driver's
// own it removes what cannot be decoded from the status: it is the operator that writes there, and what others put in the way must
// not keep its conditions from the API server.
func OnlyDriver(name string) cache.TransformFunc {
	return func(obj any) (any, error) {
		object, ok := obj.(*unstructured.Unstructured)
		switch {
		case !ok:
		case object.GetName() != name:
			return nameOnly(object), nil
		default:
			removeUndecodable(object)
		}
		return obj, nil
	}
}

func nameOnly(object *unstructured.Unstructured) *unstructured.Unstructured {
	bare := &unstructured.Unstructured{Object: map[string]any{}}
	bare.SetGroupVersionKind(object.GroupVersionKind())
	bare.SetName(object.GetName())
	bare.SetNamespace(object.GetNamespace())
	bare.SetResourceVersion(object.GetResourceVersion())
	return bare
}

func removeUndecodable(object *unstructured.Unstructured) {
	if object.Object["status"] == nil {
		return
	}
	status, ok := object.Object["status"].(map[string]any)
	if !ok {
		delete(object.Object, "status")
		return
	}
	for _, list := range []string{"conditions", "generations"} {
		if entries, ok := status[list].([]any); ok {
			status[list] = slices.DeleteFunc(entries, func(entry any) bool {
				return !decodable(map[string]any{list: []any{entry}})
			})
		}
	}
	for field, value := range status {
		if !decodable(map[string]any{field: value}) {
			delete(status, field)
		}
	}
}

func decodable(status map[string]any) bool {
	text, err := json.Marshal(status)
	return err == nil && json.Unmarshal(text, &opv1.OperatorStatus{}) == nil
}
