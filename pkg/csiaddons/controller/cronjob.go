package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
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

// clockInterval is how long a schedule is not compared with the clock, which can jump.
const clockInterval = 10 * time.Minute

// CronJobs creates and deletes the jobs of ReclaimSpaceCronJobs.
type CronJobs struct {
	Client  client.Client
	Options Options
	Events  events.EventRecorder
	Clock   clock.PassiveClock
}

// Reconcile deletes old jobs, and creates a job if one is due.
func (r *CronJobs) Reconcile(ctx context.Context, c *v1alpha1.ReclaimSpaceCronJob,
) (reconcile.Result, error) {
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
	var reason, message string
	times, err := parse(c.Spec.Schedule)
	switch {
	case err != nil:
		reason, message = ReasonInvalidSchedule, err.Error()
	case len(validation.IsDNS1123Subdomain(targetOf(c))) > 0:
		reason, message = ReasonNoTarget, "spec.jobTemplate.spec.target.persistentVolumeClaim is not "+
			"the name of a claim"
	case ptr.Deref(c.Spec.Suspend, false):
		reason, message = ReasonSuspended, "No job starts while spec.suspend is true"
	}
	c.Status.NextScheduleTime, c.Status.Reason, c.Status.Message = nil, reason, message
	if reason != "" {
		return 0, nil // the status contains the error
	}
	now := r.Clock.Now().UTC()
	delay := r.delay(c, times)
	found := r.due(c, times, now, delay)
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

// due returns the times of a schedule whose jobs start after a delay, as MinInterval allows.
func (r *CronJobs) due(c *v1alpha1.ReclaimSpaceCronJob, times cron.Schedule, now time.Time,
	delay time.Duration,
) due {
	after, last := since(c, now, delay), c.Status.LastScheduleTime
	if last == nil || last.After(now) { // no job, or the clock was set back
		return dueAt(times, after, now.Add(-delay))
	}
	if earliest := last.Add(r.Options.MinInterval).UTC(); times.Next(after).Before(earliest) {
		c.Status.Reason, c.Status.Message = ReasonMinInterval, fmt.Sprintf("The option %s of the "+
			"controller allows one job in %v", keyInterval, r.Options.MinInterval)
		after = earliest.Add(-time.Second)
	}
	return dueAt(times, after, now.Add(-delay))
}

// delay returns by how much jobs start after their schedule. It does not change with the time, so
// it can be longer than a later interval.
func (r *CronJobs) delay(c *v1alpha1.ReclaimSpaceCronJob, times cron.Schedule) time.Duration {
	first := times.Next(c.CreationTimestamp.UTC())
	window := time.Duration(r.Options.StaggerWindow) * time.Hour
	return offset(c.UID, times.Next(first).Sub(first), window)
}

// since returns the time after which a schedule counts.
func since(c *v1alpha1.ReclaimSpaceCronJob, now time.Time, delay time.Duration) time.Time {
	after := []time.Time{c.CreationTimestamp.UTC()}
	if last := c.Status.LastScheduleTime; last != nil {
		after = append(after, last.UTC())
	}
	if seconds := c.Spec.StartingDeadlineSeconds; seconds != nil && *seconds >= 0 {
		const maxSeconds = 10 * 365 * 24 * 60 * 60
		after = append(after, now.Add(-delay-time.Duration(min(*seconds, maxSeconds))*time.Second))
	}
	latest := slices.MaxFunc(after, time.Time.Compare)
	if latest.After(now) { // the clock was set back
		return now
	}
	return latest
}

// start creates a job, unless the policy forbids it.
func (r *CronJobs) start(ctx context.Context, c *v1alpha1.ReclaimSpaceCronJob, jobs history,
	found due,
) error {
	job := newJob(c, found.last)
	switch active := jobs.active(); {
	case len(active) > 0 && active[0].Name == job.Name: // the status was not written
		c.Status.LastScheduleTime = &metav1.Time{Time: found.last}
		return nil
	case len(active) > 0 && c.Spec.ConcurrencyPolicy != v1alpha1.ReplaceConcurrent:
		c.Status.Reason = ReasonActive
		c.Status.Message = fmt.Sprintf("Job %s still runs, so the next job waits", active[0].Name)
		return nil
	}
	for _, active := range jobs.active() {
		if err := remove(ctx, r.Client, active); err != nil {
			return err
		}
		r.Events.Eventf(c, active, corev1.EventTypeNormal, ReasonReplaced, actionSchedule,
			"Job %s was cancelled, because the next is due", active.Name)
	}
	err := r.Client.Create(ctx, job)
	if apierrors.IsAlreadyExists(err) { // an earlier attempt may have created it
		err = r.Client.Get(ctx, client.ObjectKeyFromObject(job), job)
		if err == nil && !metav1.IsControlledBy(job, c) {
			r.Events.Eventf(c, job, corev1.EventTypeWarning, ReasonNameTaken, actionSchedule,
				"Another object owns job %s", job.Name)
			err = fmt.Errorf("ReclaimSpaceCronJob %s does not own it", c.Name)
		}
	}
	if err != nil {
		return fmt.Errorf("creating ReclaimSpaceJob %s: %w", client.ObjectKeyFromObject(job), err)
	}
	c.Status.LastScheduleTime = &metav1.Time{Time: found.last}
	c.Status.Active = reference(job)
	kind, reason, text := corev1.EventTypeNormal, ReasonScheduled, "Created job %s"
	if found.missed {
		kind, reason = corev1.EventTypeWarning, ReasonMissed
		text = "Created job %s. Earlier times of the schedule were missed"
	}
	r.Events.Eventf(c, job, kind, reason, actionSchedule, text, job.Name)
	return nil
}

func (r *CronJobs) write(ctx context.Context, before, changed *v1alpha1.ReclaimSpaceCronJob,
) error {
	if equality.Semantic.DeepEqual(before.Status, changed.Status) {
		return nil
	}
	reason, message := changed.Status.Reason, changed.Status.Message
	if err := connection.WriteStatus(ctx, r.Client, changed); err != nil {
		return client.IgnoreNotFound(err)
	}
	if reason != "" && reason != before.Status.Reason {
		kind := corev1.EventTypeWarning
		if reason == ReasonSuspended || reason == ReasonMinInterval {
			kind = corev1.EventTypeNormal
		}
		r.Events.Eventf(before, nil, kind, reason, actionSchedule, "%s", cmp.Or(message, reason))
	}
	return nil
}
