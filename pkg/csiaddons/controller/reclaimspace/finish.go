package reclaimspace

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// maxTimeout limits the time of one call, in seconds.
const maxTimeout = 24 * 60 * 60

// start calls the driver. The slot of the job is free again when the call ends. It returns false
// without a call if the controller is ending.
func (r *Reconciler) start(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, next plan,
	v volume,
) bool {
	timeout := r.Options.Get().ReclaimSpaceTimeout
	if seconds := job.Spec.Timeout; seconds != nil {
		timeout = time.Duration(min(*seconds, maxTimeout)) * time.Second
	}
	return r.calls.start(ctx, job, timeout, func(ctx context.Context) outcome {
		defer r.slots.release(v.driver)
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

// finish handles the result of a call. It forgets the call only after the status contains the
// result.
func (r *Reconciler) finish(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, result *outcome,
) (reconcile.Result, error) {
	if r.stopped.Load() {
		return reconcile.Result{}, nil // stopCalls handles the result
	}
	if err := r.record(ctx, job, result); err != nil {
		return reconcile.Result{}, err
	}
	r.calls.forget(client.ObjectKeyFromObject(job))
	if job.Status.Result != "" {
		return reconcile.Result{}, nil
	}
	return r.advance(ctx, job)
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
	case r.late(job):
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
