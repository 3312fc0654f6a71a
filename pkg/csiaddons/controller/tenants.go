package controller

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/schedule"
)

// maxName limits a text of a tenant that must be the name of an object, in bytes.
const maxName = validation.DNS1123SubdomainMaxLength

// shrinkJob removes what the operations do not read from a ReclaimSpaceJob. Tenants write the
// object, and the CustomResourceDefinition of another program does not limit its texts.
func shrinkJob(object any) (any, error) {
	job, ok := object.(*v1alpha1.ReclaimSpaceJob)
	if !ok {
		return object, nil
	}
	job.ObjectMeta = smallMeta(&job.ObjectMeta)
	shrinkTarget(&job.Spec.Target)
	return job, nil
}

// shrinkCronJob does the same for a ReclaimSpaceCronJob. The labels and annotations of its jobs are
// read from the API server when a job is created.
func shrinkCronJob(object any) (any, error) {
	c, ok := object.(*v1alpha1.ReclaimSpaceCronJob)
	if !ok {
		return object, nil
	}
	small := smallMeta(&c.ObjectMeta)
	if from, ok := c.Labels[v1alpha1.ScheduleFromLabel]; ok {
		small.Labels = map[string]string{v1alpha1.ScheduleFromLabel: from}
	}
	if state, ok := c.Annotations[v1alpha1.StateAnnotation]; ok {
		small.Annotations = map[string]string{v1alpha1.StateAnnotation: cut(state, maxName)}
	}
	c.ObjectMeta = small
	c.Spec.Schedule = cut(c.Spec.Schedule, schedule.MaxSchedule)
	c.Spec.ConcurrencyPolicy = cut(c.Spec.ConcurrencyPolicy, maxName)
	c.Spec.JobTemplate.ObjectMeta = metav1.ObjectMeta{}
	shrinkTarget(&c.Spec.JobTemplate.Spec.Target)
	return c, nil
}

func shrinkTarget(target *v1alpha1.TargetSpec) {
	target.PersistentVolumeClaim = cut(target.PersistentVolumeClaim, maxName)
}

// smallMeta returns what identifies an object, and its controller.
func smallMeta(of *metav1.ObjectMeta) metav1.ObjectMeta {
	small := metav1.ObjectMeta{
		Namespace: of.Namespace, Name: of.Name, UID: of.UID, ResourceVersion: of.ResourceVersion,
		Generation: of.Generation, CreationTimestamp: of.CreationTimestamp,
		DeletionTimestamp: of.DeletionTimestamp,
	}
	if owner := metav1.GetControllerOf(of); owner != nil {
		small.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: cut(owner.APIVersion, maxName), Kind: cut(owner.Kind, maxName),
			Name: cut(owner.Name, maxName), UID: cut(owner.UID, maxName),
			Controller: owner.Controller,
		}}
	}
	return small
}

// cut returns at most limit+1 bytes of a text. So a text that is too long is still too long, and
// the operations refuse it. Nothing writes it: they write a status, or a patch of other fields.
func cut[T ~string](text T, limit int) T {
	if len(text) <= limit {
		return text
	}
	return T(strings.Clone(string(text[:limit+1])))
}
