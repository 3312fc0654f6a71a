package controller

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
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
	// resultTimeout limits the time to write the result of a call, also when the controller ends.
	resultTimeout = 10 * time.Second
)

// call calls the driver and writes the result. It writes none if the call was cancelled, because
// the job is deleted or the controller ends: the next leader repeats the call.
func (r *Jobs) call(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, next nextCall) error {
	if err := r.announce(ctx, job, next); err != nil {
		return err
	}
	calling, cancel := context.WithTimeout(ctx, r.timeout(job))
	defer cancel()
	began, sidecar := r.Clock.Now(), next.sidecar
	method := wire.ControllerReclaimSpace
	if next.step == v1alpha1.ReclaimSpaceOnNode {
		method = wire.NodeReclaimSpace
	}
	request := &wire.ReclaimSpaceRequest{PvName: next.volume.Name}
	answer, err := method.Call(calling, sidecar.Connection, request)
	code := status.Code(err)
	r.Metrics.Ended(sidecar.Driver, method.Name(), code.String(), r.Clock.Since(began))
	if ctx.Err() != nil && code == codes.Canceled {
		log.FromContext(ctx).Info("Cancelled the call of the ReclaimSpaceJob")
		return nil
	}
	return r.writeResult(ctx, job, next, answer, err)
}

func (r *Jobs) timeout(job *v1alpha1.ReclaimSpaceJob) time.Duration {
	configured := r.Options.ReclaimSpaceTimeout
	if job.Spec.Timeout == nil {
		return configured
	}
	limit := max(configured, maxTimeout)
	return time.Duration(min(*job.Spec.Timeout, int64(limit/time.Second))) * time.Second
}

// announce writes which call starts. It fails if the job has changed since it was read.
func (r *Jobs) announce(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, next nextCall) error {
	message := "The driver reclaims space in its controller service, pod " + next.sidecar.Pod.Name
	if next.node() != "" {
		message = "The driver reclaims space on node " + next.node()
	}
	r.start(job)
	job.Status.Step, job.Status.Node = next.step, next.node()
	job.Status.Reason, job.Status.Message = ReasonStarted, message
	r.set(job, ConditionRunning, true, ReasonStarted, message)
	return r.write(ctx, job, corev1.EventTypeNormal, ReasonStarted, message)
}

// writeResult writes the result of a call, also if the controller ends meanwhile. If the API server
// does not accept it in time, the call is repeated. Each attempt reads the job: somebody may have
// changed it, or the API server has written the result without an answer.
func (r *Jobs) writeResult(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, of nextCall,
	answer *wire.ReclaimSpaceResponse, failure error,
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resultTimeout)
	defer cancel()
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 7}
	return retry.OnError(backoff, func(error) bool { return ctx.Err() == nil }, func() error {
		live := &v1alpha1.ReclaimSpaceJob{}
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), live)
		if err != nil || live.UID != job.UID {
			return client.IgnoreNotFound(err) // the job is deleted
		}
		live.DeepCopyInto(job)
		switch code := status.Code(failure); {
		case !meta.IsStatusConditionTrue(job.Status.Conditions, ConditionRunning):
			return nil
		case code == codes.OK || code == codes.Unimplemented:
			return r.complete(ctx, job, of, answer, failure)
		default:
			return r.retry(ctx, job, failure)
		}
	})
}

// complete writes that one step of a job is complete, or that the whole job is. A failure means
// that the driver had nothing to do.
func (r *Jobs) complete(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, of nextCall,
	answer *wire.ReclaimSpaceResponse, failure error,
) error {
	condition, reason := ConditionController, ReasonReclaimed
	message := "The driver has reclaimed space"
	if of.step == v1alpha1.ReclaimSpaceOnNode {
		condition = ConditionNode
	}
	if failure != nil {
		reason = ReasonUnimplemented
		message = "The driver cannot reclaim space of this volume: " + connection.Describe(failure)
	}
	r.set(job, condition, failure == nil, reason, message)
	r.set(job, ConditionRunning, false, ReasonEnded, "The call of the driver has ended")
	pre, post := answer.GetPreUsage(), answer.GetPostUsage()
	var bytes int64
	if failure == nil && pre != nil && post != nil && pre.GetUsageBytes() >= 0 &&
		post.GetUsageBytes() >= 0 {
		bytes = max(pre.GetUsageBytes()-post.GetUsageBytes(), 0)
		sum := resource.NewQuantity(bytes, resource.BinarySI)
		if before := job.Status.ReclaimedSpace; before != nil {
			sum.Add(*before)
		}
		job.Status.ReclaimedSpace = sum
	}
	next, err := r.plan(ctx, job, of.volume)
	if err == nil && next.sidecar == nil {
		err = r.succeed(ctx, job)
	} else { // after an error, the next plan says why the job waits
		err = connection.WriteStatus(ctx, r.Client, job)
	}
	if err == nil {
		r.Metrics.Reclaimed(of.sidecar.Driver, bytes)
	}
	return err
}

func (r *Jobs) retry(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, failure error,
) error {
	limit := cmp.Or(max(ptr.Deref(job.Spec.BackOffLimit, 0), 0), defaultBackOffLimit)
	message := connection.Describe(failure)
	switch attempts := job.Status.Retries + 1; {
	case job.Status.Retries >= limit:
		return r.fail(ctx, job, ReasonBackOffLimit,
			fmt.Sprintf("Attempt %d of %d failed: %s", attempts, limit+1, message))
	case r.left(job, ReasonRetrying) <= 0:
		return r.fail(ctx, job, ReasonDeadline,
			fmt.Sprintf("Attempt %d failed, and the time for retries is over: %s", attempts, message))
	}
	job.Status.Retries++
	job.Status.Step = v1alpha1.ReclaimSpaceWaiting
	job.Status.Reason, job.Status.Message = ReasonRetrying, message
	r.set(job, ConditionRunning, false, ReasonRetrying, message)
	return r.write(ctx, job, corev1.EventTypeWarning, ReasonRetrying,
		fmt.Sprintf("Attempt %d of %d failed, the next follows in %v: %s", job.Status.Retries, limit+1,
			retryDelay(job.Status.Retries), message))
}
