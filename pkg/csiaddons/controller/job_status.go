package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// Types of conditions of a job. The controller reads them after a restart, because the
// CustomResourceDefinition of another program may lack other fields.
const (
	// ConditionRunning says whether a call of the driver runs.
	ConditionRunning = "Running"
	// ConditionNode and ConditionController exist when that step of the job is complete. They are
	// False if the driver had nothing to do.
	ConditionNode       = "NodeReclaimed"
	ConditionController = "ControllerReclaimed"
	// ConditionQueued says whether the job waits because too many calls run.
	ConditionQueued = "Queued"
	// ConditionComplete or ConditionFailed exists when the job has ended.
	ConditionComplete = "Complete"
	ConditionFailed   = "Failed"
)

// Reasons of conditions, of the status and of events.
const (
	ReasonNoTarget      = "NoTarget"
	ReasonClaimNotFound = "ClaimNotFound"
	ReasonClaimNotBound = "ClaimNotBound"
	ReasonNoDriver      = "NoDriver"
	ReasonUnsupported   = "Unsupported"
	ReasonNotInUse      = "VolumeNotInUse"
	ReasonNoSidecar     = "NoSidecar"
	ReasonBusy          = "TooManyCalls"
	ReasonStarted       = "Started"
	ReasonRetrying      = "Retrying"
	ReasonReclaimed     = "Reclaimed"
	ReasonUnimplemented = "Unimplemented"
	ReasonInvalid       = "InvalidArgument"
	ReasonBackOffLimit  = "BackOffLimitExceeded"
	ReasonDeadline      = "DeadlineExceeded"
	ReasonEnded         = "Ended"
	ReasonDequeued      = "Dequeued"

	actionReclaim = "ReclaimSpace"
)

// set sets a condition at the time of the reconciler's clock.
func (r *Jobs) set(job *v1alpha1.ReclaimSpaceJob, condition string, is bool,
	reason, message string,
) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&job.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: message,
		ObservedGeneration: job.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
}

// wait writes why a job waits. Its deadline does not begin while it waits for its first call
// because of other jobs.
func (r *Jobs) wait(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, why *obstacle) error {
	changed := job.DeepCopy()
	if changed.Status.StartTime == nil && why.reason != ReasonBusy {
		now := metav1.NewTime(r.Clock.Now())
		changed.Status.StartTime = &now
	}
	if why.reason == ReasonBusy {
		r.set(changed, ConditionQueued, true, why.reason, why.message)
	} else {
		r.leaveQueue(changed)
	}
	changed.Status.Step, changed.Status.Node = v1alpha1.ReclaimSpaceWaiting, ""
	changed.Status.Reason, changed.Status.Message = why.reason, why.message
	r.set(changed, ConditionRunning, false, why.reason, why.message)
	return r.write(ctx, job, changed)
}

// leaveQueue writes that a job does not wait for calls of other jobs any more.
func (r *Jobs) leaveQueue(job *v1alpha1.ReclaimSpaceJob) {
	if meta.IsStatusConditionTrue(job.Status.Conditions, ConditionQueued) {
		r.set(job, ConditionQueued, false, ReasonDequeued, "The job does not wait for other jobs")
	}
}

// succeed ends a job. It succeeds even if the driver could not reclaim space from this volume: the
// specification demands that UNIMPLEMENTED is not tried again. It also succeeds if no node uses the
// volume.
func (r *Jobs) succeed(ctx context.Context, job *v1alpha1.ReclaimSpaceJob) error {
	reason, message := ReasonUnimplemented, "The driver cannot reclaim space of this volume"
	node := meta.FindStatusCondition(job.Status.Conditions, ConditionNode)
	if node != nil && node.Reason == ReasonNotInUse {
		reason, message = node.Reason, node.Message
	}
	for _, condition := range []string{ConditionNode, ConditionController} {
		if meta.IsStatusConditionTrue(job.Status.Conditions, condition) {
			reason, message = ReasonReclaimed, "The driver has reclaimed the unused space"
		}
	}
	if space := job.Status.ReclaimedSpace; space != nil {
		message = fmt.Sprintf("The driver has reclaimed %s bytes", space.AsDec())
	}
	return r.end(ctx, job, ConditionComplete, reason, message)
}

// fail ends a job.
func (r *Jobs) fail(ctx context.Context, job *v1alpha1.ReclaimSpaceJob,
	reason, message string,
) error {
	return r.end(ctx, job, ConditionFailed, reason, message)
}

func (r *Jobs) end(ctx context.Context, job *v1alpha1.ReclaimSpaceJob,
	condition, reason, message string,
) error {
	changed := job.DeepCopy()
	kind := corev1.EventTypeNormal
	r.leaveQueue(changed)
	changed.Status.Result = v1alpha1.OperationSucceeded
	changed.Status.Message = v1alpha1.ReclaimSpaceSucceeded + " " + message
	if condition == ConditionFailed {
		changed.Status.Result, kind = v1alpha1.OperationFailed, corev1.EventTypeWarning
		changed.Status.Message = message
	}
	now := metav1.NewTime(r.Clock.Now())
	if changed.Status.StartTime == nil {
		changed.Status.StartTime = &now
	}
	changed.Status.CompletionTime = &now
	changed.Status.Step, changed.Status.Reason = "", reason
	r.set(changed, ConditionRunning, false, ReasonEnded, "The job has ended")
	r.set(changed, condition, true, reason, message)
	if err := r.write(ctx, job, changed); err != nil {
		return err
	}
	r.Events.Eventf(job, nil, kind, string(changed.Status.Result), actionReclaim, "%s", message)
	return nil
}

// write updates the status. It fails if the job has changed since it was read, so a decision that
// depends on an outdated job has no effect.
func (r *Jobs) write(ctx context.Context, job, changed *v1alpha1.ReclaimSpaceJob) error {
	if equality.Semantic.DeepEqual(job.Status, changed.Status) {
		return nil
	}
	return r.update(ctx, job, changed)
}

// update is write, also without a change.
func (r *Jobs) update(ctx context.Context, job, changed *v1alpha1.ReclaimSpaceJob) error {
	wanted := changed.Status.DeepCopy()
	if err := r.Client.Status().Update(ctx, changed); err != nil {
		return fmt.Errorf("writing the status of ReclaimSpaceJob %s: %w",
			client.ObjectKeyFromObject(job), err)
	}
	// The response lacks fields that the CustomResourceDefinition does not contain.
	changed.Status = *wanted
	changed.DeepCopyInto(job)
	return nil
}

// retryDelay is the time before a retry; the first retry has the number 1.
func retryDelay(retry int32) time.Duration {
	const first, limit, doublings = 5 * time.Second, 5 * time.Minute, 10
	return min(first<<min(max(retry-1, 0), doublings), limit)
}
