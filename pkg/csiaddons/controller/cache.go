package controller

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// maxAnnotation limits an annotation in the cache, in bytes. The rest of a longer one is cut: it is
// still too long to be a schedule.
const maxAnnotation = 4 << 10

// cacheOptions returns options of caches that contain only what the controller reads, such as pods
// and CSIAddonsNodes in the namespaces of drivers.
func cacheOptions(namespaces []string) cache.Options {
	drivers := map[string]cache.Config{}
	for _, namespace := range namespaces {
		drivers[namespace] = cache.Config{}
	}
	return cache.Options{DefaultTransform: shrink, ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}:             {Namespaces: drivers},
		&v1alpha1.CSIAddonsNode{}: {Namespaces: drivers},
	}}
}

// shrink removes what the controller does not read: managed fields, annotations that are not about
// CSI-Addons, and most of Nodes and pods, which are large. The controller never writes such an
// object as a whole.
func shrink(object any) (any, error) {
	found, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // the informer has lost the last state of a deleted object
	}
	found.SetManagedFields(nil)
	var annotations map[string]string
	for key, value := range found.GetAnnotations() {
		group, _, _ := strings.Cut(key, "/")
		if group != v1alpha1.Group && !strings.HasSuffix(group, "."+v1alpha1.Group) {
			continue
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = strings.Clone(value[:min(len(value), maxAnnotation)])
	}
	found.SetAnnotations(annotations)
	switch one := object.(type) {
	case *corev1.Node:
		one.Spec, one.Status = corev1.NodeSpec{}, corev1.NodeStatus{Addresses: one.Status.Addresses}
	case *corev1.Pod:
		one.Spec = corev1.PodSpec{NodeName: one.Spec.NodeName}
		one.Status = corev1.PodStatus{Phase: one.Status.Phase, PodIP: one.Status.PodIP}
	}
	return object, nil
}
