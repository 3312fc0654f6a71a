package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
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
	before := job.Status.DeepCopy()
	if why.reason == ReasonBusy {
		r.set(job, ConditionQueued, true, why.reason, why.message)
	} else {
		r.start(job)
	}
	job.Status.Step, job.Status.Node = v1alpha1.ReclaimSpaceWaiting, ""
	job.Status.Reason, job.Status.Message = why.reason, why.message
	r.set(job, ConditionRunning, false, why.reason, why.message)
	if equality.Semantic.DeepEqual(before, &job.Status) {
		return nil
	}
	return connection.WriteStatus(ctx, r.Client, job)
}

// start sets when the deadline of a job starts, and that the job does not wait for other jobs.
func (r *Jobs) start(job *v1alpha1.ReclaimSpaceJob) {
	if job.Status.StartTime == nil {
		job.Status.StartTime = &metav1.Time{Time: r.Clock.Now()}
	}
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

func (r *Jobs) fail(ctx context.Context, job *v1alpha1.ReclaimSpaceJob,
	reason, message string,
) error {
	return r.end(ctx, job, ConditionFailed, reason, message)
}

func (r *Jobs) end(ctx context.Context, job *v1alpha1.ReclaimSpaceJob,
	condition, reason, message string,
) error {
	kind, result, text := corev1.EventTypeNormal, v1alpha1.OperationSucceeded,
		v1alpha1.ReclaimSpaceSucceeded+" "+message
	if condition == ConditionFailed {
		kind, result, text = corev1.EventTypeWarning, v1alpha1.OperationFailed, message
	}
	r.start(job)
	job.Status.CompletionTime = &metav1.Time{Time: r.Clock.Now()}
	job.Status.Result, job.Status.Message = result, text
	job.Status.Step, job.Status.Reason = "", reason
	r.set(job, ConditionRunning, false, ReasonEnded, "The job has ended")
	r.set(job, condition, true, reason, message)
	return r.write(ctx, job, kind, string(result), message)
}

func (r *Jobs) write(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, kind, reason,
	message string,
) error {
	err := connection.WriteStatus(ctx, r.Client, job)
	if err == nil {
		r.Events.Eventf(job, nil, kind, reason, actionReclaim, "%s", message)
	}
	return err
}

// retryDelay is the time before a retry; the first retry has the number 1.
func retryDelay(retry int32) time.Duration {
	const first, limit, doublings = 5 * time.Second, 5 * time.Minute, 10
	return min(first<<min(max(retry-1, 0), doublings), limit)
}
