package guest

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
)

// StorageClassState returns spec.storageClassState of a ClusterCSIDriver in a cache, and Managed if
// it is not in the cache. Messages append suffix to its name.
func StorageClassState(store cache.Store, driver, suffix string) (opv1.StorageClassStateName,
	error,
) {
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
		Object: "ClusterCSIDriver " + driver + suffix, Field: field, Problem: "is not a string",
		Fix: "set it to Managed, Unmanaged or Removed",
	}
	value, found, err := unstructured.NestedString(object.Object, "spec", "storageClassState")
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
// own, and one empty object in place of all others. From the status it removes all that cannot be
// decoded, because writes of others must not prevent the operator from writing its conditions.
func OnlyDriver(name string) cache.TransformFunc {
	return func(obj any) (any, error) {
		object, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return obj, nil
		}
		if object.GetName() != name {
			return &unstructured.Unstructured{}, nil
		}
		removeUndecodable(object)
		return object, nil
	}
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
	for list, keys := range listKeys() {
		if entries, ok := status[list].([]any); ok {
			found := sets.New[string]()
			status[list] = slices.DeleteFunc(entries, func(entry any) bool {
				if !decodable(map[string]any{list: []any{entry}}) {
					return true
				}
				key := keyOf(entry, keys)
				defer found.Insert(key)
				return found.Has(key)
			})
		}
	}
	for field, value := range status {
		if !decodable(map[string]any{field: value}) {
			delete(status, field)
		}
	}
}

// listKeys returns the keys of the lists of the status. Two entries with the same keys would make
// the list undecodable.
func listKeys() map[string][]string {
	return map[string][]string{
		"conditions": {"type"}, "generations": {"group", "resource", "namespace", "name"},
	}
}

func keyOf(entry any, keys []string) string {
	fields, _ := entry.(map[string]any) // nil without a key
	values := make([]any, 0, len(keys))
	for _, key := range keys {
		values = append(values, fields[key])
	}
	return fmt.Sprintf("%q", values)
}

func decodable(status map[string]any) bool {
	return convert(status, &opv1.OperatorStatus{}) == nil
}
