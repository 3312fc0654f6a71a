package guest

import (
	"reflect"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/pkg/storageclass"
)

// maxClass limits a StorageClass in the cache. The operators' StorageClasses have less than 1 KiB.
const maxClass = 4 << 10

// DropUnused returns a transform for informers of the guest side that removes unused content from
// memory. Of objects that are read as metadata it keeps only the names. From a large StorageClass,
// or a StorageClass of another driver, it keeps the provisioner and whether it is the default;
// writers of StorageClasses read them from the API server first.
func DropUnused(driver string) cache.TransformFunc {
	return func(obj any) (any, error) {
		switch object := obj.(type) {
		case *metav1.PartialObjectMetadata:
			return &metav1.PartialObjectMetadata{ObjectMeta: identity(&object.ObjectMeta)}, nil
		case *storagev1.StorageClass:
			object.ManagedFields = nil
			if object.Provisioner != driver || object.Size() > maxClass {
				return bareClass(object), nil
			}
			return object, nil
		}
		return WithoutManagedFields(obj)
	}
}

// WithoutManagedFields is a transform that saves memory.
func WithoutManagedFields(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
	}
	return obj, nil
}

// OnlyObject returns the transform for an informer of one object. It replaces other objects, which
// an API server that ignores namespaces and field selectors returns too, by an object without a
// name, of which a cache contains one.
func OnlyObject(namespace, name string, next cache.TransformFunc) cache.TransformFunc {
	return func(obj any) (any, error) {
		object, err := meta.Accessor(obj)
		if err != nil || object.GetName() == name && object.GetNamespace() == namespace {
			return next(obj)
		}
		return reflect.New(reflect.TypeOf(obj).Elem()).Interface(), nil
	}
}

func identity(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
	}
}

func bareClass(class *storagev1.StorageClass) *storagev1.StorageClass {
	bare := &storagev1.StorageClass{
		ObjectMeta: identity(&class.ObjectMeta), Provisioner: class.Provisioner,
	}
	if class.Annotations[storageclass.DefaultAnnotation] == "true" {
		bare.Annotations = map[string]string{storageclass.DefaultAnnotation: "true"}
	}
	return bare
}
