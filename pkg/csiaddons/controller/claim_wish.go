package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// Kinds of objects whose annotations schedule the reclaiming of space.
const (
	claimKind     = "PersistentVolumeClaim"
	namespaceKind = "Namespace"
	classKind     = "StorageClass"
)

// wish is the schedule of a claim by annotations.
type wish struct {
	// schedule is the text of the annotation; "" means no schedule.
	schedule string
	// from is the object with the annotation.
	from origin
	// unknown says that an object whose annotations count is missing, so nothing may change.
	unknown bool
}

// origin is an object whose annotations count for a claim.
type origin struct {
	kind   string
	object client.Object
	// missing says that the object does not exist, or that the cache does not contain it yet.
	missing bool
}

// wanted returns the schedule of a claim. The object current has the schedule that it had so far.
func (c *Claims) wanted(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	current *v1alpha1.ReclaimSpaceCronJob,
) (wish, error) {
	origins, err := c.origins(ctx, claim)
	if err != nil {
		return wish{}, err
	}
	if slices.ContainsFunc(origins, disabled) {
		return wish{}, nil
	}
	for _, one := range origins {
		text := strings.TrimSpace(one.object.GetAnnotations()[v1alpha1.ReclaimSpaceScheduleAnnotation])
		switch {
		case one.missing && one.affects(current):
			return wish{unknown: true}, nil
		case text == "":
			continue
		case one.kind == namespaceKind:
			included, known, err := c.includes(ctx, one.object, claim)
			if err != nil || !known {
				return wish{unknown: true}, err
			}
			if !included {
				continue
			}
		}
		return wish{schedule: shortened(text), from: one}, nil
	}
	return wish{}, nil
}

// origins returns the objects whose annotations count for a claim. The first with a schedule wins.
func (c *Claims) origins(ctx context.Context, claim *corev1.PersistentVolumeClaim,
) ([]origin, error) {
	var origins []origin
	if c.Precedence != ClassOnly {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(namespaceKind))
		origins = append(origins, origin{kind: claimKind, object: claim})
		found, err := c.read(ctx, namespace, claim.Namespace)
		if err != nil {
			return nil, err
		}
		origins = append(origins, found)
	}
	if name := ptr.Deref(claim.Spec.StorageClassName, ""); name != "" {
		class := &metav1.PartialObjectMetadata{}
		class.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind(classKind))
		found, err := c.read(ctx, class, name)
		if err != nil {
			return nil, err
		}
		origins = append(origins, found)
	}
	return origins, nil
}

// read reads an object of the cluster from the cache.
func (c *Claims) read(ctx context.Context, object *metav1.PartialObjectMetadata, name string,
) (origin, error) {
	found := origin{kind: object.Kind, object: object}
	err := c.Client.Get(ctx, types.NamespacedName{Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		return found, fmt.Errorf("reading %s %s: %w", found.kind, name, err)
	}
	found.missing = apierrors.IsNotFound(err)
	return found, nil
}

// disabled returns whether an object prevents schedules.
func disabled(one origin) bool {
	return one.object.GetAnnotations()[v1alpha1.ReclaimSpaceEnableAnnotation] == "false"
}

// affects returns whether a missing object can have the schedule of a ReclaimSpaceCronJob. A
// namespace exists, so the cache will contain it. A StorageClass is often deleted and created
// again, which must not end schedules.
func (o origin) affects(current *v1alpha1.ReclaimSpaceCronJob) bool {
	if o.kind == namespaceKind || current == nil {
		return true
	}
	from := current.Labels[v1alpha1.ScheduleFromLabel]
	return from == o.kind || from == "" // of the CSI-Addons for Ceph
}

// includes returns whether the schedule of a namespace includes the driver of a claim. Without the
// annotation of the namespace it includes all. The driver may not be known.
func (c *Claims) includes(ctx context.Context, namespace client.Object,
	claim *corev1.PersistentVolumeClaim,
) (included, known bool, err error) {
	drivers, ok := namespace.GetAnnotations()[v1alpha1.ReclaimSpaceDriversAnnotation]
	if !ok {
		return true, true, nil
	}
	driver, known, err := c.driver(ctx, claim)
	return driver != "" && slices.ContainsFunc(strings.Split(drivers, ","), func(name string) bool {
		return strings.TrimSpace(name) == driver
	}), known, err
}

// shortened returns a schedule that is not longer than a schedule may be. What replaces a longer
// text is never in the format of cron.
func shortened(text string) string {
	const shown = 32
	if len(text) <= MaxSchedule {
		return text
	}
	return strings.ToValidUTF8(text[:shown], "") + "... (too long)"
}
