package guest

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DropUnused is a transform for informers that removes unused content from memory. Of objects that
// are read as metadata it keeps only the names and whether they are being deleted, of others
// everything except managed fields.
func DropUnused(obj any) (any, error) {
	if object, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: object.Name, Namespace: object.Namespace, UID: object.UID,
			ResourceVersion: object.ResourceVersion, DeletionTimestamp: object.DeletionTimestamp,
		}}, nil
	}
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
	}
	return obj, nil
}
