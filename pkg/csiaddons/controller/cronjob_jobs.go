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

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

const (
	// indexOwner indexes ReclaimSpaceJobs by the UID of their ReclaimSpaceCronJob.
	indexOwner = "owner"
	// Defaults of a ReclaimSpaceCronJob.
	defaultSucceeded = 3
	defaultFailed    = 1
)

// history are the jobs of a ReclaimSpaceCronJob, the newest first.
type history struct {
	active, succeeded, failed []*v1alpha1.ReclaimSpaceJob
}

// jobs lists the jobs that the object owns and that are not being deleted.
func (r *CronJobs) jobs(ctx context.Context, c *v1alpha1.ReclaimSpaceCronJob) (history, error) {
	var list v1alpha1.ReclaimSpaceJobList
	err := r.Client.List(ctx, &list, client.InNamespace(c.Namespace),
		client.MatchingFields{indexOwner: string(c.UID)})
	if err != nil {
		return history{}, fmt.Errorf("listing ReclaimSpaceJobs: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.ReclaimSpaceJob) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	var found history
	for i := range list.Items {
		job := &list.Items[i]
		switch {
		case job.DeletionTimestamp != nil:
		case job.Status.Result == v1alpha1.OperationSucceeded:
			found.succeeded = append(found.succeeded, job)
		case job.Status.Result == v1alpha1.OperationFailed:
			found.failed = append(found.failed, job)
		default:
			found.active = append(found.active, job)
		}
	}
	return found, nil
}

// describe writes the active job and the last success into a status.
func (j history) describe(status *v1alpha1.ReclaimSpaceCronJobStatus) {
	status.Active = nil
	if len(j.active) > 0 {
		status.Active = &corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion().String(), Kind: "ReclaimSpaceJob",
			Namespace: j.active[0].Namespace, Name: j.active[0].Name, UID: j.active[0].UID,
		}
	}
	for _, job := range j.succeeded {
		ended, known := job.Status.CompletionTime, status.LastSuccessfulTime
		if ended != nil && (known == nil || known.Before(ended)) {
			status.LastSuccessfulTime = ended.DeepCopy()
		}
	}
}

// prune deletes the jobs beyond the limits of the history.
func (r *CronJobs) prune(ctx context.Context, c *v1alpha1.ReclaimSpaceCronJob, all history) error {
	for _, one := range []struct {
		jobs  []*v1alpha1.ReclaimSpaceJob
		limit int32
	}{
		{all.succeeded, ptr.Deref(c.Spec.SuccessfulJobsHistoryLimit, defaultSucceeded)},
		{all.failed, ptr.Deref(c.Spec.FailedJobsHistoryLimit, defaultFailed)},
	} {
		for _, job := range one.jobs[min(len(one.jobs), max(int(one.limit), 0)):] {
			if err := r.remove(ctx, job); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes a job. Its call is cancelled if it runs.
func (r *CronJobs) remove(ctx context.Context, job *v1alpha1.ReclaimSpaceJob) error {
	err := r.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting ReclaimSpaceJob %s: %w", client.ObjectKeyFromObject(job), err)
	}
	return nil
}

// newJob returns the job for a time of the schedule. The same time has the same name, so no job is
// created twice.
func newJob(c *v1alpha1.ReclaimSpaceCronJob, at time.Time) *v1alpha1.ReclaimSpaceJob {
	template := c.Spec.JobTemplate.DeepCopy()
	annotations := template.Annotations
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.ScheduledAtAnnotation] = at.UTC().Format(time.RFC3339)
	owner := metav1.NewControllerRef(c, v1alpha1.GroupVersion().WithKind("ReclaimSpaceCronJob"))
	return &v1alpha1.ReclaimSpaceJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: jobName(c.Name, at), Labels: template.Labels,
			Annotations: annotations, OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: template.Spec,
	}
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

// SetUp adds the reconciler to a manager.
func (r *CronJobs) SetUp(ctx context.Context, m manager.Manager) error {
	owner := func(o client.Object) []string {
		controller := metav1.GetControllerOf(o)
		if controller == nil || controller.Kind != "ReclaimSpaceCronJob" {
			return nil
		}
		return []string{string(controller.UID)}
	}
	err := m.GetFieldIndexer().IndexField(ctx, &v1alpha1.ReclaimSpaceJob{}, indexOwner, owner)
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).Named("reclaimspacecronjob").
		For(&v1alpha1.ReclaimSpaceCronJob{}, builder.WithPredicates(
			predicate.GenerationChangedPredicate{})).
		Owns(&v1alpha1.ReclaimSpaceJob{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}
