package controller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

const (
	// indexOwner indexes ReclaimSpaceJobs by the UID of their ReclaimSpaceCronJob.
	indexOwner = "owner"
	// Defaults of a ReclaimSpaceCronJob.
	defaultSucceeded = 3
	defaultFailed    = 1
)

// history are the jobs of a ReclaimSpaceCronJob by result, the newest first. Active jobs have none.
type history map[v1alpha1.OperationResult][]*v1alpha1.ReclaimSpaceJob

func (h history) active() []*v1alpha1.ReclaimSpaceJob { return h[""] }

// jobs lists the jobs that the object owns and that are not being deleted.
func (r *CronJobs) jobs(ctx context.Context, c *v1alpha1.ReclaimSpaceCronJob) (history, error) {
	var list v1alpha1.ReclaimSpaceJobList
	err := r.Client.List(ctx, &list, client.InNamespace(c.Namespace),
		client.MatchingFields{indexOwner: string(c.UID)})
	if err != nil {
		return nil, fmt.Errorf("listing ReclaimSpaceJobs: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.ReclaimSpaceJob) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	found := history{}
	for i := range list.Items {
		if job := &list.Items[i]; job.DeletionTimestamp == nil {
			found[job.Status.Result] = append(found[job.Status.Result], job)
		}
	}
	return found, nil
}

func (h history) describe(status *v1alpha1.ReclaimSpaceCronJobStatus) {
	status.Active = nil
	if active := h.active(); len(active) > 0 {
		status.Active = reference(active[0])
	}
	if succeeded := h[v1alpha1.OperationSucceeded]; len(succeeded) > 0 {
		status.LastSuccessfulTime = succeeded[0].Status.CompletionTime.DeepCopy()
	}
}

func reference(job *v1alpha1.ReclaimSpaceJob) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion().String(), Kind: "ReclaimSpaceJob",
		Namespace: job.Namespace, Name: job.Name, UID: job.UID,
	}
}

func (r *CronJobs) prune(ctx context.Context, c *v1alpha1.ReclaimSpaceCronJob, all history) error {
	for result, limit := range map[v1alpha1.OperationResult]int32{
		v1alpha1.OperationSucceeded: ptr.Deref(c.Spec.SuccessfulJobsHistoryLimit, defaultSucceeded),
		v1alpha1.OperationFailed:    ptr.Deref(c.Spec.FailedJobsHistoryLimit, defaultFailed),
	} {
		for _, job := range all[result][min(len(all[result]), max(int(limit), 0)):] {
			if err := remove(ctx, r.Client, job); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes a job or a ReclaimSpaceCronJob, unless somebody has changed it since it was read.
func remove(ctx context.Context, kube client.Client, o client.Object) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	err := kube.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %T %s: %w", o, client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// newJob returns the job for a time of the schedule. The same time has the same name, so no job is
// created twice.
func newJob(c *v1alpha1.ReclaimSpaceCronJob, at time.Time) *v1alpha1.ReclaimSpaceJob {
	template := c.Spec.JobTemplate.DeepCopy()
	owner := metav1.NewControllerRef(c, v1alpha1.GroupVersion().WithKind("ReclaimSpaceCronJob"))
	job := &v1alpha1.ReclaimSpaceJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: jobName(c.Name, at), Labels: template.Labels,
			Annotations: template.Annotations, OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: template.Spec,
	}
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, v1alpha1.ScheduledAtAnnotation,
		at.UTC().Format(time.RFC3339))
	return job
}

// jobName returns <name>-<seconds since 1970>.
func jobName(name string, at time.Time) string {
	return appended(name, "-"+strconv.FormatInt(at.Unix(), 10))
}

// appended returns a name with a suffix. A hash replaces the end of a long name.
func appended(name, suffix string) string {
	const digits = 10
	if len(name)+len(suffix) > validation.DNS1123SubdomainMaxLength {
		sum := sha256.Sum256([]byte(name))
		suffix = "-" + hex.EncodeToString(sum[:])[:digits] + suffix
		name = name[:validation.DNS1123SubdomainMaxLength-len(suffix)]
	}
	return name + suffix
}

func byOwner(o client.Object) []string {
	return []string{string(ptr.Deref(metav1.GetControllerOf(o), metav1.OwnerReference{}).UID)}
}

// SetUp adds the reconciler to a manager.
func (r *CronJobs) SetUp(ctx context.Context, m manager.Manager) error {
	err := m.GetFieldIndexer().IndexField(ctx, &v1alpha1.ReclaimSpaceJob{}, indexOwner, byOwner)
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).Named("reclaimspacecronjob").
		For(&v1alpha1.ReclaimSpaceCronJob{}, builder.WithPredicates(
			predicate.GenerationChangedPredicate{})).
		Owns(&v1alpha1.ReclaimSpaceJob{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.AsReconciler(m.GetClient(), r))
}
