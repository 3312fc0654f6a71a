package controller

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/schedule"
)

// maxAnnotation limits an annotation in the cache, in bytes. A longer one is dropped, because it is
// neither a schedule nor a name.
const maxAnnotation = 1 << 10

// cacheOptions returns options of caches that contain only what the operations read: pods and
// CSIAddonsNodes in the namespaces of drivers, and no metadata that they do not use.
func cacheOptions(namespaces []string) cache.Options {
	drivers := map[string]cache.Config{}
	for _, namespace := range namespaces {
		drivers[namespace] = cache.Config{}
	}
	objects := schedule.Caches()
	objects[&corev1.Pod{}] = cache.ByObject{Namespaces: drivers, Transform: shrinkPod}
	objects[&v1alpha1.CSIAddonsNode{}] = cache.ByObject{
		Namespaces: drivers, Transform: shrinkSidecar,
	}
	objects[&v1alpha1.ReclaimSpaceJob{}] = cache.ByObject{Transform: shrinkJob}
	objects[&v1alpha1.ReclaimSpaceCronJob{}] = cache.ByObject{Transform: shrinkCronJob}
	objects[&corev1.Node{}] = cache.ByObject{Transform: shrinkNode}
	objects[&storagev1.VolumeAttachment{}] = cache.ByObject{Transform: shrinkAttachment}
	return cache.Options{DefaultTransform: shrink, ByObject: objects}
}

// shrink removes the managed fields of an object, and annotations that are not about CSI-Addons.
func shrink(object any) (any, error) {
	found, err := meta.Accessor(object)
	if err != nil {
		return object, nil //nolint:nilerr // the informer has lost the last state of a deleted object
	}
	found.SetManagedFields(nil)
	annotations := maps.Clone(found.GetAnnotations())
	maps.DeleteFunc(annotations, func(key, value string) bool {
		group, _, _ := strings.Cut(key, "/")
		about := group == v1alpha1.Group || strings.HasSuffix(group, "."+v1alpha1.Group)
		return !about || len(value) > maxAnnotation
	})
	if len(annotations) == 0 {
		annotations = nil
	}
	found.SetAnnotations(annotations)
	return object, nil
}

// shrinkPod removes what package node does not read.
func shrinkPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields, pod.Annotations, pod.Labels = nil, nil, nil
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP}
	return pod, nil
}

// shrinkNode removes what packages node and fence do not read.
func shrinkNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	node.ManagedFields, node.Annotations, node.Labels = nil, nil, nil
	node.Spec = corev1.NodeSpec{}
	node.Status = corev1.NodeStatus{Addresses: node.Status.Addresses}
	return node, nil
}

// shrinkAttachment removes what package reclaimspace does not read.
func shrinkAttachment(object any) (any, error) {
	attachment, ok := object.(*storagev1.VolumeAttachment)
	if !ok {
		return object, nil
	}
	attachment.ManagedFields, attachment.Annotations, attachment.Labels = nil, nil, nil
	attachment.Status = storagev1.VolumeAttachmentStatus{Attached: attachment.Status.Attached}
	return attachment, nil
}
