package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// maxTimeout limits the time that a job may give to one call. While the call runs, other jobs
	// wait for its end. A sidecar limits the time of a call to an hour by default, too.
	maxTimeout = time.Hour
	// recordTimeout limits the time to write the result of a call, also when the controller ends.
	recordTimeout = 10 * time.Second
)

// outcome is the result of a call.
type outcome struct {
	step   v1alpha1.ReclaimSpaceStep
	driver string
	answer *wire.ReclaimSpaceResponse
	err    error
}

// call calls the driver and writes the result. It writes none if the call was cancelled, because
// the job is deleted or the controller ends: the next leader repeats the call.
func (r *Jobs) call(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, next plan, driver string,
	request *wire.ReclaimSpaceRequest,
) error {
	if err := r.announce(ctx, job, next); err != nil {
		return err
	}
	calling, cancel := context.WithTimeout(ctx, r.timeout(job))
	defer cancel()
	result, began := &outcome{step: next.step, driver: driver}, r.Clock.Now()
	operation := "ControllerReclaimSpace"
	if next.step == v1alpha1.ReclaimSpaceOnNode {
		operation = "NodeReclaimSpace"
		result.answer, result.err = next.sidecar.ReclaimSpace.NodeReclaimSpace(calling, request)
	} else {
		result.answer, result.err = next.sidecar.ReclaimSpace.ControllerReclaimSpace(calling, request)
	}
	code := status.Code(result.err)
	r.Metrics.Ended(driver, operation, code.String(), r.Clock.Since(began))
	if ctx.Err() != nil && code == codes.Canceled {
		log.FromContext(ctx).Info("Cancelled the call of the ReclaimSpaceJob")
		return nil
	}
	return r.record(ctx, job, result)
}

// timeout returns the maximum duration of one call of a job.
func (r *Jobs) timeout(job *v1alpha1.ReclaimSpaceJob) time.Duration {
	configured := r.Options.ReclaimSpaceTimeout
	if job.Spec.Timeout == nil {
		return configured
	}
	limit := max(configured, maxTimeout)
	return time.Duration(min(*job.Spec.Timeout, int64(limit/time.Second))) * time.Second
}

// announce writes which call starts. It fails if the job has changed since it was read.
func (r *Jobs) announce(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, next plan) error {
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

// record writes the result of a call, also if the controller ends meanwhile. If the API server does
// not accept it in time, the call is repeated.
func (r *Jobs) record(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, result *outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 7}
	return retry.OnError(backoff, func(error) bool { return ctx.Err() == nil }, func() error {
		failed := r.conclude(ctx, job, result)
		if failed == nil {
			return nil
		}
		// Somebody has changed the job, or the API server has written the result without an answer.
		var live v1alpha1.ReclaimSpaceJob
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), &live)
		switch {
		case apierrors.IsNotFound(err) || err == nil && live.UID != job.UID:
			return nil // the job is deleted
		case err != nil:
			return errors.Join(failed, err)
		}
		live.DeepCopyInto(job)
		running := meta.IsStatusConditionTrue(job.Status.Conditions, ConditionRunning)
		if job.Status.Result != "" || !running {
			return nil
		}
		return failed
	})
}

// conclude writes what the result of a call means for the job.
func (r *Jobs) conclude(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, result *outcome,
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

// complete writes that one step of a job is complete.
func (r *Jobs) complete(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, result *outcome,
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
func (r *Jobs) retry(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, failure error,
) error {
	limit := int32(defaultBackOffLimit)
	if given := job.Spec.BackOffLimit; given != nil && *given > 0 {
		limit = *given
	}
	message := connection.Describe(failure)
	switch attempts := job.Status.Retries + 1; {
	case job.Status.Retries >= limit:
		return r.fail(ctx, job, ReasonBackOffLimit,
			fmt.Sprintf("Attempt %d of %d failed: %s", attempts, limit+1, message))
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
		"Attempt %d of %d failed, the next follows in %v: %s", job.Status.Retries, limit+1,
		retryDelay(job.Status.Retries), message)
	return nil
}
