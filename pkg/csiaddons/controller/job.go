package controller

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

const (
	// firstCheck and lastCheck are the shortest and the longest time after which a job with an
	// obstacle is checked.
	firstCheck, lastCheck = 10 * time.Second, time.Minute
	// queueInterval is the shortest time after which a job that waits for the calls of other jobs is
	// checked. The end of a call wakes the next job, so this matters only for lost messages.
	queueInterval = 10 * time.Second
	// jitter spreads these checks, as a part of the time.
	jitter = 0.5
	// perWaiting lengthens that time for each job that waits, so that thousands of them send few
	// requests: all together are checked at most 50 times a second.
	perWaiting = 20 * time.Millisecond
	// claimTimeout is how long a job waits for a claim that does not exist.
	claimTimeout = time.Minute
	// Defaults of a job. 0 means the default.
	defaultBackOffLimit = 6
	defaultRetrySeconds = 600
)

// Jobs runs ReclaimSpaceJobs: it finds the volume, the node that uses it and the sidecars, calls
// the driver, and writes the progress and the result into the status of the job.
type Jobs struct {
	Client client.Client
	// Live reads from the API server, without a cache.
	Live client.Reader
	// Sidecars are those to which the controller is connected, a *connection.Pool.
	Sidecars     sidecars
	Drivers      connection.Drivers
	Options      Options
	MaxPerDriver int
	Events       events.EventRecorder
	Metrics      *connection.Metrics
	Clock        clock.PassiveClock

	limits *limits
	// cancels contains a context.CancelFunc for each job that is reconciled now, by its name.
	cancels sync.Map
}

// sidecars finds sidecars that have all capabilities.
type sidecars interface {
	Any(driver string, capabilities ...string) bool
	OnNode(driver, node string, capabilities ...string) *connection.Sidecar
	Leader(ctx context.Context, driver string, capabilities ...string) (leader *connection.Sidecar,
		hasLease bool, err error)
}

// Reconcile runs a job until it has ended or must wait. A call starts only after the status says
// so, and that write fails if the cache is outdated. So no call starts twice.
func (r *Jobs) Reconcile(ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	name := request.NamespacedName
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.cancels.Store(name, cancel)
	defer r.cancels.Delete(name)
	job := &v1alpha1.ReclaimSpaceJob{}
	if err := r.Client.Get(ctx, name, job); err != nil {
		r.limits.forget(name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	for job.DeletionTimestamp == nil && job.Status.Result == "" && ctx.Err() == nil {
		if delay := r.untilRetry(job); delay > 0 {
			return reconcile.Result{RequeueAfter: delay}, nil
		}
		if err := r.advance(ctx, job); err != nil && ctx.Err() == nil {
			return r.meet(ctx, job, err)
		}
	}
	r.limits.forget(name)
	return reconcile.Result{}, nil
}

func (r *Jobs) cancel(job client.Object) {
	if cancel, ok := r.cancels.Load(client.ObjectKeyFromObject(job)); ok {
		cancel.(context.CancelFunc)()
	}
}

// advance runs the next call of a job, or completes it. If it must wait, it returns an *obstacle.
func (r *Jobs) advance(ctx context.Context, job *v1alpha1.ReclaimSpaceJob) error {
	name := client.ObjectKeyFromObject(job)
	busy := waiting(ReasonBusy, "The job waits for other calls of drivers to end")
	if r.limits.blocked(name) {
		return busy
	}
	volume, err := r.volume(ctx, job)
	if err != nil {
		return err
	}
	next, err := r.plan(ctx, job, volume)
	if err != nil {
		return err
	}
	if next.sidecar == nil {
		return r.succeed(ctx, job)
	}
	needed := slot{next.sidecar.Driver, job.Namespace, next.node()}
	if !r.limits.acquire(name, needed) {
		return busy
	}
	defer r.limits.release(needed)
	return r.call(ctx, job, next)
}

// meet handles an obstacle: the job waits, at most until its deadline. The time in which it waits
// for other jobs has no limit.
func (r *Jobs) meet(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, err error,
) (reconcile.Result, error) {
	why, ok := errors.AsType[*obstacle](err)
	if ok && why.reason == ReasonBusy {
		after := wait.Jitter(max(queueInterval, perWaiting*time.Duration(r.limits.queued())), jitter)
		// The jobs that are woken do not wait for these checks.
		low := handler.LowPriority
		return reconcile.Result{RequeueAfter: after, Priority: &low}, r.wait(ctx, job, why)
	}
	r.limits.forget(client.ObjectKeyFromObject(job)) // the jobs behind it do not wait for the obstacle
	if !ok {
		return reconcile.Result{}, err
	}
	left := r.left(job, why.reason)
	if why.final || left <= 0 {
		return reconcile.Result{}, r.fail(ctx, job, why.reason, why.message)
	}
	// The time between two checks increases, so that many jobs with obstacles send few requests.
	const part = 4
	after := min(max(r.elapsed(job)/part, firstCheck), lastCheck, left)
	return reconcile.Result{RequeueAfter: after}, r.wait(ctx, job, why)
}

func (r *Jobs) elapsed(job *v1alpha1.ReclaimSpaceJob) time.Duration {
	if job.Status.StartTime == nil {
		return 0
	}
	return r.Clock.Since(job.Status.StartTime.Time)
}

// left returns the time until a job fails if a reason persists.
func (r *Jobs) left(job *v1alpha1.ReclaimSpaceJob, reason string) time.Duration {
	seconds := cmp.Or(max(ptr.Deref(job.Spec.RetryDeadlineSeconds, 0), 0), defaultRetrySeconds)
	deadline := time.Duration(seconds) * time.Second
	if reason == ReasonClaimNotFound {
		deadline = min(deadline, claimTimeout)
	}
	return deadline - r.elapsed(job)
}

func (r *Jobs) untilRetry(job *v1alpha1.ReclaimSpaceJob) time.Duration {
	running := meta.FindStatusCondition(job.Status.Conditions, ConditionRunning)
	if running == nil || running.Reason != ReasonRetrying {
		return 0
	}
	delay := retryDelay(job.Status.Retries)
	// If the clock was set back, the delay is not longer than usual.
	return min(running.LastTransitionTime.Add(delay).Sub(r.Clock.Now()), delay)
}

// workers is the number of objects of a kind that are reconciled at once, besides jobs with calls.
const workers = 10

// SetUp adds the reconciler to a manager.
func (r *Jobs) SetUp(ctx context.Context, m manager.Manager) error {
	calls := r.Options.MaxConcurrent
	err := m.GetFieldIndexer().IndexField(ctx, &storagev1.VolumeAttachment{}, indexVolume, byVolume)
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).Named("reclaimspacejob").
		For(&v1alpha1.ReclaimSpaceJob{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.ReclaimSpaceJob{}, r.cancelDeleted()).
		WatchesRawSource(source.Func(func(_ context.Context, q connection.Queue) error {
			r.limits = newLimits(calls, r.MaxPerDriver, func(job types.NamespacedName) {
				connection.Enqueue(q, job, connection.First, 0)
			}, r.Metrics)
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: calls + workers}).
		Complete(r)
}

func (r *Jobs) cancelDeleted() handler.Funcs {
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ connection.Queue) {
			if e.ObjectNew.GetDeletionTimestamp() != nil {
				r.cancel(e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ connection.Queue) {
			r.cancel(e.Object)
		},
	}
}
