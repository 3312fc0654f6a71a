package reclaimspace

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// maxTimeout limits the time that a job may give to one call. While the call runs, other jobs wait
// for its slot. A sidecar limits the time of a call to an hour by default, too.
const maxTimeout = time.Hour

// start calls the driver. The slot of the job is free again when the call ends. It returns false
// without a call if the controller is ending.
func (r *Reconciler) start(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, next plan,
	v volume,
) bool {
	name := client.ObjectKeyFromObject(job)
	return r.calls.start(ctx, job, r.timeout(job), func(ctx context.Context) outcome {
		defer r.slots.release(v.driver, next.node(), name)
		result := outcome{step: next.step, driver: v.driver}
		request := &wire.ReclaimSpaceRequest{PvName: v.name}
		began := r.Clock.Now()
		operation := "ControllerReclaimSpace"
		if next.step == v1alpha1.ReclaimSpaceOnNode {
			operation = "NodeReclaimSpace"
			result.answer, result.err = next.sidecar.ReclaimSpace.NodeReclaimSpace(ctx, request)
		} else {
			result.answer, result.err = next.sidecar.ReclaimSpace.ControllerReclaimSpace(ctx, request)
		}
		r.Metrics.Ended(v.driver, operation, status.Code(result.err).String(), r.Clock.Since(began))
		return result
	})
}

// timeout returns the maximum duration of one call of a job.
func (r *Reconciler) timeout(job *v1alpha1.ReclaimSpaceJob) time.Duration {
	configured := r.Options.Get().ReclaimSpaceTimeout
	if job.Spec.Timeout == nil {
		return configured
	}
	limit := max(configured, maxTimeout)
	return time.Duration(min(*job.Spec.Timeout, int64(limit/time.Second))) * time.Second
}

// finish handles the result of a call. It forgets the call only after the status contains the
// result.
func (r *Reconciler) finish(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, result *outcome,
) (reconcile.Result, error) {
	done, err := r.recordOnce(ctx, job, result)
	if err != nil || !done || job.Status.Result != "" {
		return reconcile.Result{}, err
	}
	return r.advance(ctx, job)
}

// recordOnce reads a job from the API server, and writes the result of its call. It returns false
// if the controller is ending: stopCalls then handles the result. The lock lets stopCalls wait for
// results that are being written.
func (r *Reconciler) recordOnce(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, result *outcome,
) (bool, error) {
	r.recording.RLock()
	defer r.recording.RUnlock()
	if r.stopped {
		return false, nil
	}
	name, uid := client.ObjectKeyFromObject(job), job.UID
	if err := r.Live.Get(ctx, name, job); err != nil {
		return false, client.IgnoreNotFound(err) // the deletion ends the call
	}
	if job.UID != uid {
		return false, nil // the event of the new job ends the call of the previous one
	}
	if expects(job) {
		if err := r.record(ctx, job, result); err != nil {
			return false, err
		}
	}
	r.calls.forget(name)
	return true, nil
}

// expects returns whether the status of a job, as the API server has it, lacks the result of the
// call that has started last. A write can succeed although the controller got no answer.
func expects(job *v1alpha1.ReclaimSpaceJob) bool {
	return job.Status.Result == "" &&
		meta.IsStatusConditionTrue(job.Status.Conditions, ConditionRunning)
}

// record writes the result of a call into the status.
func (r *Reconciler) record(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, result *outcome,
) error {
	switch status.Code(result.err) {
	case codes.OK:
		return r.complete(ctx, job, result, ReasonReclaimed, "The driver has reclaimed space")
	case codes.Unimplemented:
		return r.complete(ctx, job, result, ReasonUnimplemented,
			"The driver cannot reclaim space of this volume: "+connection.Describe(result.err))
	case codes.InvalidArgument:
		return r.fail(ctx, job, ReasonInvalid, connection.Describe(result.err))
	default:
		return r.retry(ctx, job, result.err)
	}
}

// complete writes that one half of a job is complete.
func (r *Reconciler) complete(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, result *outcome,
	reason, message string,
) error {
	changed := job.DeepCopy()
	condition := ConditionController
	if result.step == v1alpha1.ReclaimSpaceOnNode {
		condition = ConditionNode
	}
	did := result.err == nil
	r.set(changed, condition, did, reason, message)
	r.set(changed, ConditionRunning, false, ReasonEnded, "The call of the driver has ended")
	pre, post := result.answer.GetPreUsage(), result.answer.GetPostUsage()
	var bytes int64
	if did && pre != nil && post != nil && pre.GetUsageBytes() >= 0 && post.GetUsageBytes() >= 0 {
		bytes = max(pre.GetUsageBytes()-post.GetUsageBytes(), 0)
		sum := resource.NewQuantity(bytes, resource.BinarySI)
		if before := changed.Status.ReclaimedSpace; before != nil {
			sum.Add(*before)
		}
		changed.Status.ReclaimedSpace = sum
	}
	if err := r.write(ctx, job, changed); err != nil {
		return err
	}
	r.Metrics.Reclaimed(result.driver, bytes)
	return nil
}

// retry writes that a call has failed, and when the next attempt starts.
func (r *Reconciler) retry(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, failure error,
) error {
	limit := int32(defaultBackOffLimit)
	if given := job.Spec.BackOffLimit; given != nil && *given > 0 {
		limit = *given
	}
	message := connection.Describe(failure)
	switch attempts := job.Status.Retries + 1; {
	case attempts >= limit:
		return r.fail(ctx, job, ReasonBackOffLimit,
			fmt.Sprintf("Attempt %d of %d failed: %s", attempts, limit, message))
	case r.left(job, ReasonRetrying) <= 0:
		return r.fail(ctx, job, ReasonDeadline,
			fmt.Sprintf("Attempt %d failed, and the time for retries is over: %s", attempts, message))
	}
	changed := job.DeepCopy()
	changed.Status.Retries++
	changed.Status.Step = v1alpha1.ReclaimSpaceWaiting
	changed.Status.Reason, changed.Status.Message = ReasonRetrying, message
	r.set(changed, ConditionRunning, false, ReasonRetrying, message)
	if err := r.write(ctx, job, changed); err != nil {
		return err
	}
	r.Events.Eventf(job, nil, corev1.EventTypeWarning, ReasonRetrying, actionReclaim,
		"Attempt %d of %d failed, the next follows in %v: %s", job.Status.Retries, limit,
		retryDelay(job.Status.Retries), message)
	return nil
}
