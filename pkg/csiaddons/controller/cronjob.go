package controller

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// Reasons of the status and of events.
const (
	ReasonScheduled       = "Scheduled"
	ReasonSuspended       = "Suspended"
	ReasonInvalidSchedule = "InvalidSchedule"
	ReasonActive          = "PreviousJobActive"
	ReasonMissed          = "MissedSchedule"
	ReasonReplaced        = "Replaced"
	ReasonNameTaken       = "NameTaken"
	ReasonMinInterval     = "MinScheduleInterval"

	actionSchedule = "Schedule"
)

// clockInterval is the longest time until a schedule is compared with the clock again, which can
// jump.
const clockInterval = 10 * time.Minute

// CronJobs creates and deletes the jobs of ReclaimSpaceCronJobs.
type CronJobs struct {
	Client  client.Client
	Options Options
	Events  events.EventRecorder
	Clock   clock.PassiveClock
}

// Reconcile deletes old jobs, and creates a job if one is due.
func (r *CronJobs) Reconcile(ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	c := &v1alpha1.ReclaimSpaceCronJob{}
	if err := r.Client.Get(ctx, request.NamespacedName, c); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if c.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // Kubernetes deletes the jobs
	}
	jobs, err := r.jobs(ctx, c)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.prune(ctx, c, jobs); err != nil {
		return reconcile.Result{}, err
	}
	changed := c.DeepCopy()
	jobs.describe(&changed.Status)
	after, err := r.schedule(ctx, changed, jobs)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: after}, r.write(ctx, c, changed)
}

// schedule creates a job if one is due. It returns the time until the next check, or 0 if a change
// of an object triggers that.
func (r *CronJobs) schedule(ctx context.Context, c *v1alpha1.ReclaimSpaceCronJob, jobs history,
) (time.Duration, error) {
	c.Status.NextScheduleTime, c.Status.Reason, c.Status.Message = nil, "", ""
	times, err := parse(c.Spec.Schedule)
	switch {
	case err != nil:
		c.Status.Reason, c.Status.Message = ReasonInvalidSchedule, err.Error()
		return 0, nil //nolint:nilerr // the status contains the error
	case len(validation.IsDNS1123Subdomain(targetOf(c))) > 0:
		c.Status.Reason, c.Status.Message = ReasonNoTarget, "spec.jobTemplate.spec.target."+
			"persistentVolumeClaim is not the name of a claim"
		return 0, nil
	case ptr.Deref(c.Spec.Suspend, false):
		c.Status.Reason, c.Status.Message = ReasonSuspended, "No job starts while spec.suspend is true"
		return 0, nil
	}
	now := r.Clock.Now().UTC()
	delay := r.delay(c, times)
	found := r.due(c, times, now.Add(-delay))
	if !found.last.IsZero() {
		if err := r.start(ctx, c, jobs, found); err != nil {
			return 0, err
		}
	}
	if found.next.IsZero() {
		return 0, nil
	}
	next := found.next.Add(delay)
	c.Status.NextScheduleTime = &metav1.Time{Time: next}
	return min(max(next.Sub(now), time.Second), clockInterval), nil
}

// due returns the times of a schedule at a time, as far as MinInterval allows them.
func (r *CronJobs) due(c *v1alpha1.ReclaimSpaceCronJob, times cron.Schedule, now time.Time) due {
	after, last := since(c, now), c.Status.LastScheduleTime
	if last == nil || last.After(now) { // no job, or the clock was set back
		return dueAt(times, after, now)
	}
	earliest := last.Add(r.Options.MinInterval).UTC()
	if !times.Next(after).Before(earliest) {
		return dueAt(times, after, now)
	}
	c.Status.Reason, c.Status.Message = ReasonMinInterval, fmt.Sprintf("The option %s of the "+
		"controller allows one job in %v", keyInterval, r.Options.MinInterval)
	after = earliest.Add(-time.Second)
	if after.After(now) {
		return due{next: times.Next(after)}
	}
	return dueAt(times, after, now)
}

// delay returns by how much jobs start after their schedule. It does not change with the time.
func (r *CronJobs) delay(c *v1alpha1.ReclaimSpaceCronJob, times cron.Schedule) time.Duration {
	first := times.Next(c.CreationTimestamp.UTC())
	second := times.Next(first)
	if first.IsZero() || second.IsZero() {
		return 0
	}
	return offset(c.UID, second.Sub(first), r.Options.StaggerWindow)
}

// since returns the time after which a schedule counts.
func since(c *v1alpha1.ReclaimSpaceCronJob, now time.Time) time.Time {
	after := c.CreationTimestamp.Time
	if last := c.Status.LastScheduleTime; last != nil && last.After(after) {
		after = last.Time
	}
	if seconds := c.Spec.StartingDeadlineSeconds; seconds != nil && *seconds >= 0 {
		const maxSeconds = 10 * 365 * 24 * 60 * 60
		earliest := now.Add(-time.Duration(min(*seconds, maxSeconds)) * time.Second)
		if earliest.After(after) {
			after = earliest
		}
	}
	return after.UTC()
}

// start creates a job, unless the policy forbids it.
func (r *CronJobs) start(ctx context.Context, c *v1alpha1.ReclaimSpaceCronJob, jobs history,
	found due,
) error {
	switch {
	case len(jobs.active) > 0 && jobs.active[0].Name == jobName(c.Name, found.last):
		// The status was not written.
		c.Status.LastScheduleTime = &metav1.Time{Time: found.last}
		return nil
	case len(jobs.active) > 0 && c.Spec.ConcurrencyPolicy != v1alpha1.ReplaceConcurrent:
		c.Status.Reason = ReasonActive
		c.Status.Message = fmt.Sprintf("Job %s still runs, so the next job waits", jobs.active[0].Name)
		return nil
	}
	job := newJob(c, found.last)
	for _, active := range jobs.active {
		if err := r.remove(ctx, active); err != nil {
			return err
		}
		r.Events.Eventf(c, active, corev1.EventTypeNormal, ReasonReplaced, actionSchedule,
			"Job %s was cancelled, because the next is due", active.Name)
	}
	err := r.Client.Create(ctx, job)
	if apierrors.IsAlreadyExists(err) {
		err = r.adopt(ctx, c, job)
	}
	if err != nil {
		return fmt.Errorf("creating ReclaimSpaceJob %s: %w", client.ObjectKeyFromObject(job), err)
	}
	c.Status.LastScheduleTime = &metav1.Time{Time: found.last}
	c.Status.Active = &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion().String(), Kind: "ReclaimSpaceJob",
		Namespace: job.Namespace, Name: job.Name, UID: job.UID,
	}
	kind, reason, text := corev1.EventTypeNormal, ReasonScheduled, "Created job %s"
	if found.missed {
		kind, reason = corev1.EventTypeWarning, ReasonMissed
		text = "Created job %s. Earlier times of the schedule were missed"
	}
	r.Events.Eventf(c, job, kind, reason, actionSchedule, text, job.Name)
	return nil
}

// adopt checks that a job with the name exists because an earlier attempt created it.
func (r *CronJobs) adopt(ctx context.Context, c *v1alpha1.ReclaimSpaceCronJob,
	job *v1alpha1.ReclaimSpaceJob,
) error {
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
		return err
	}
	if !metav1.IsControlledBy(job, c) {
		r.Events.Eventf(c, job, corev1.EventTypeWarning, ReasonNameTaken, actionSchedule,
			"Another object owns job %s", job.Name)
		return fmt.Errorf("ReclaimSpaceCronJob %s does not own it", c.Name)
	}
	return nil
}

// write updates the status.
func (r *CronJobs) write(ctx context.Context, before, changed *v1alpha1.ReclaimSpaceCronJob,
) error {
	if equality.Semantic.DeepEqual(before.Status, changed.Status) {
		return nil
	}
	was, reason, message := before.Status.Reason, changed.Status.Reason, changed.Status.Message
	if err := r.Client.Status().Update(ctx, changed); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("writing the status of ReclaimSpaceCronJob %s: %w",
			client.ObjectKeyFromObject(before), err))
	}
	if reason != "" && reason != was {
		kind := corev1.EventTypeWarning
		if reason == ReasonSuspended || reason == ReasonMinInterval {
			kind = corev1.EventTypeNormal
		}
		r.Events.Eventf(before, nil, kind, reason, actionSchedule, "%s", cmp.Or(message, reason))
	}
	return nil
}
