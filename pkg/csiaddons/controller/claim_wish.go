package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// origin is an object whose annotations count for a claim.
type origin struct {
	kind   string
	object client.Object
	// missing says that the object does not exist, or that the cache does not contain it yet.
	missing bool
	// schedule is the text of the annotation.
	schedule string
}

// wanted returns the object with the schedule of a claim, or nil. The first object in current has
// the schedule so far. wanted returns errUnknown if an object is missing that can have this
// schedule: a StorageClass is often deleted and created again, which must not end schedules.
func (c *Claims) wanted(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	current []*v1alpha1.ReclaimSpaceCronJob,
) (*origin, error) {
	origins, err := c.origins(ctx, claim)
	if err != nil || slices.ContainsFunc(origins, func(one origin) bool {
		return one.object.GetAnnotations()[v1alpha1.ReclaimSpaceEnableAnnotation] == "false"
	}) {
		return nil, err
	}
	for _, one := range origins {
		if one.missing && len(current) > 0 {
			from := current[0].Labels[v1alpha1.ScheduleFromLabel]
			if from == one.kind || from == "" { // of the CSI-Addons for Ceph
				return nil, errUnknown
			}
		}
		if one.schedule == "" {
			continue
		}
		included, err := c.includes(ctx, one, claim)
		if included || err != nil {
			return &one, err
		}
	}
	return nil, nil
}

// origins returns the objects whose annotations count for a claim. The first with a schedule wins.
func (c *Claims) origins(ctx context.Context, claim *corev1.PersistentVolumeClaim,
) ([]origin, error) {
	var origins []origin
	if !c.ClassOnly {
		origins = append(origins, newOrigin(claimKind, claim, nil))
	}
	for _, one := range []struct{ version, kind, name string }{
		{"v1", namespaceKind, claim.Namespace},
		{"storage.k8s.io/v1", classKind, ptr.Deref(claim.Spec.StorageClassName, "")},
	} {
		if one.name == "" || c.ClassOnly && one.kind != classKind {
			continue
		}
		object := &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: one.version, Kind: one.kind},
		}
		err := c.Client.Get(ctx, types.NamespacedName{Name: one.name}, object)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading %s %s: %w", one.kind, one.name, err)
		}
		origins = append(origins, newOrigin(one.kind, object, err))
	}
	return origins, nil
}

func newOrigin(kind string, object client.Object, missing error) origin {
	text := object.GetAnnotations()[v1alpha1.ReclaimSpaceScheduleAnnotation]
	return origin{kind, object, missing != nil, shortened(strings.TrimSpace(text))}
}

// includes returns whether the schedule of an object includes the driver of a claim. The annotation
// of a namespace can list drivers.
func (c *Claims) includes(ctx context.Context, from origin, claim *corev1.PersistentVolumeClaim,
) (bool, error) {
	drivers, ok := from.object.GetAnnotations()[v1alpha1.ReclaimSpaceDriversAnnotation]
	if !ok || from.kind != namespaceKind {
		return true, nil
	}
	driver, err := c.driver(ctx, claim)
	return driver != "" && slices.ContainsFunc(strings.Split(drivers, ","), func(name string) bool {
		return strings.TrimSpace(name) == driver
	}), err
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
