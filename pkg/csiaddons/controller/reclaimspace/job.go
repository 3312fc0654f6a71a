// Package reclaimspace runs ReclaimSpaceJobs: it finds the volume, the node that uses it and the
// sidecars, calls the driver, and writes the progress and the result into the status of the job.
package reclaimspace

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/metrics"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
)

const (
	// firstCheck and lastCheck are the shortest and the longest time after which a job with an
	// obstacle is checked without an event.
	firstCheck, lastCheck = 10 * time.Second, time.Minute
	// queueInterval is the same for a job that waits for the calls of other jobs. A job that gets a
	// slot is woken, so this matters only if the limits have changed.
	queueInterval = 5 * time.Minute
	// claimTimeout is how long a job waits for a claim that does not exist.
	claimTimeout = time.Minute
	// Defaults of a job. 0 means the default.
	defaultBackOffLimit  = 6
	defaultRetryDeadline = 10 * time.Minute
)

// Reconciler runs jobs.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, without a cache.
	Live         client.Reader
	Router       *connection.Router
	Drivers      settings.Drivers
	Options      *settings.Live
	MaxPerDriver int
	// IndexDriver is the name of the index of CSIAddonsNodes by driver.
	IndexDriver string
	Events      events.EventRecorder
	Metrics     *metrics.Metrics
	Clock       clock.PassiveClock

	slots slots
	calls calls
	// recording is locked for reading while a result is written, and protects stopped.
	recording sync.RWMutex
	stopped   bool // the controller is ending
}

// Reconcile takes the next step of a job: it starts a call, or handles the result of one. A call
// starts only after the status says so, and that write fails if the cache is outdated. So no call
// starts twice.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	if request == (reconcile.Request{}) {
		return reconcile.Result{}, r.wakeWaiting(ctx)
	}
	name := request.NamespacedName
	job := &v1alpha1.ReclaimSpaceJob{}
	err := r.Client.Get(ctx, name, job)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if err != nil || job.DeletionTimestamp != nil {
		r.slots.forget(name)
		if r.calls.forget(name) {
			log.FromContext(ctx).Info("Cancelled the call of a deleted ReclaimSpaceJob")
		}
		return reconcile.Result{}, nil
	}
	if job.Status.Result != "" {
		r.slots.forget(name)
		return reconcile.Result{}, nil
	}
	result, ended := r.calls.find(name, job.UID)
	switch {
	case result == nil:
		return r.advance(ctx, job)
	case !ended:
		return reconcile.Result{}, nil
	default:
		return r.finish(ctx, job, result)
	}
}

// advance starts the next call of a job, or completes it.
func (r *Reconciler) advance(ctx context.Context, job *v1alpha1.ReclaimSpaceJob,
) (reconcile.Result, error) {
	name := client.ObjectKeyFromObject(job)
	if delay := r.untilRetry(job); delay > 0 {
		r.slots.forget(name)
		return reconcile.Result{RequeueAfter: delay}, nil
	}
	volume, problem, err := r.volume(ctx, job)
	if err != nil || problem != nil {
		r.slots.forget(name) // the jobs behind it do not wait for this obstacle
		return r.meet(ctx, job, problem, err)
	}
	if !r.slots.acquire(volume.driver, name) {
		return r.queue(ctx, job)
	}
	held, node := true, ""
	defer func() {
		if held {
			r.slots.release(volume.driver, node, name)
		}
	}()
	next, problem, err := r.plan(ctx, job, volume)
	if err != nil || problem != nil {
		return r.meet(ctx, job, problem, err)
	}
	if next.skipped != "" {
		r.set(job, ConditionNode, false, ReasonNotInUse, next.skipped)
	}
	if next.sidecar == nil {
		return reconcile.Result{}, r.succeed(ctx, job)
	}
	if held = r.slots.enter(volume.driver, next.node(), name); !held {
		return r.queue(ctx, job)
	}
	node = next.node()
	if err := r.announce(ctx, job, next); err != nil {
		return reconcile.Result{}, err
	}
	held = !r.start(ctx, job, next, volume)
	return reconcile.Result{}, nil
}

// queue writes that a job waits for other jobs.
func (r *Reconciler) queue(ctx context.Context, job *v1alpha1.ReclaimSpaceJob,
) (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: queueInterval}, r.wait(ctx, job, waiting(ReasonBusy,
		"The job waits for other calls of drivers to end"))
}

// meet handles an obstacle: the job waits, at most until its deadline.
func (r *Reconciler) meet(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, why *obstacle,
	err error,
) (reconcile.Result, error) {
	if err != nil {
		return reconcile.Result{}, err
	}
	left := r.left(job, why.reason)
	if why.final || left <= 0 {
		return reconcile.Result{}, r.fail(ctx, job, why.reason, why.message)
	}
	return reconcile.Result{RequeueAfter: min(r.untilCheck(job), left)}, r.wait(ctx, job, why)
}

// untilCheck returns the time after which an obstacle is checked without an event. It increases
// with the time since the start of the job, so that many jobs with obstacles send few requests.
func (r *Reconciler) untilCheck(job *v1alpha1.ReclaimSpaceJob) time.Duration {
	if job.Status.StartTime == nil {
		return firstCheck
	}
	const part = 4
	return min(max(r.Clock.Since(job.Status.StartTime.Time)/part, firstCheck), lastCheck)
}

// left returns the time until a job fails if a reason persists. The time in which the job waits for
// other jobs does not count.
func (r *Reconciler) left(job *v1alpha1.ReclaimSpaceJob, reason string) time.Duration {
	deadline := defaultRetryDeadline
	if seconds := job.Spec.RetryDeadlineSeconds; seconds != nil && *seconds > 0 {
		deadline = time.Duration(*seconds) * time.Second
	}
	if reason == ReasonClaimNotFound {
		deadline = min(deadline, claimTimeout)
	}
	if job.Status.StartTime == nil {
		return deadline
	}
	return deadline - r.Clock.Since(job.Status.StartTime.Time) + r.queueTime(job)
}

// untilRetry returns the time until the next attempt.
func (r *Reconciler) untilRetry(job *v1alpha1.ReclaimSpaceJob) time.Duration {
	running := meta.FindStatusCondition(job.Status.Conditions, ConditionRunning)
	if running == nil || running.Reason != ReasonRetrying {
		return 0
	}
	delay := retryDelay(job.Status.Retries)
	// If the clock was set back, the delay is not longer than usual.
	return min(running.LastTransitionTime.Add(delay).Sub(r.Clock.Now()), delay)
}

// announce writes which call starts.
func (r *Reconciler) announce(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, next plan) error {
	changed := job.DeepCopy()
	status := &changed.Status
	r.leaveQueue(changed)
	if status.StartTime == nil {
		now := metav1.NewTime(r.Clock.Now())
		status.StartTime = &now
	}
	status.Step, status.Node = next.step, ""
	status.Message = "The driver reclaims space in its controller service, pod " +
		next.sidecar.Pod.Name
	if next.step == v1alpha1.ReclaimSpaceOnNode {
		status.Node = next.sidecar.Node
		status.Message = "The driver reclaims space on node " + next.sidecar.Node
	}
	status.Reason = ReasonStarted
	r.set(changed, ConditionRunning, true, ReasonStarted, status.Message)
	if err := r.update(ctx, job, changed); err != nil {
		return err
	}
	r.Events.Eventf(job, nil, corev1.EventTypeNormal, ReasonStarted, actionReclaim, "%s",
		job.Status.Message)
	return nil
}
