package fence

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// ConditionFenced is True if the clients of the current spec are fenced, and False if they are
// unfenced. It is Unknown while a call runs or has failed, because a driver may have done a part.
const ConditionFenced = "Fenced"

// Reasons of the status, the condition and events.
const (
	ReasonFenced   = "Fenced"
	ReasonUnfenced = "Unfenced"
	ReasonStarted  = "Started"
	// ReasonWaiting means that the driver has a call for another NetworkFence.
	ReasonWaiting     = "Waiting"
	ReasonRetrying    = "Retrying"
	ReasonNoDriver    = "NoDriver"
	ReasonInvalidCIDR = "InvalidCIDR"
	// ReasonInvalidClass is about the parameters of a NetworkFenceClass.
	ReasonInvalidClass = "InvalidClass"
	// ReasonFencedByAnother means that clients of an unfenced NetworkFence stay fenced, because
	// another NetworkFence fences them.
	ReasonFencedByAnother = "FencedByAnother"

	actionFence = "Fence"
)

// outcome is what the status says about a call.
type outcome struct {
	result v1alpha1.OperationResult
	fenced metav1.ConditionStatus

	reason, message string
	// unverified is why a fence that holds was not verified for too long.
	unverified string
	// ended are the CIDRs whose fence has ended, if others stay fenced. Without them, the status keeps
	// those that it contains.
	ended []string
}

// settled returns whether the condition says that the current spec is done.
func settled(f *v1alpha1.NetworkFence) bool {
	wanted := metav1.ConditionTrue
	if f.Spec.FenceState == v1alpha1.Unfenced {
		wanted = metav1.ConditionFalse
	}
	return !outdated(f) &&
		meta.IsStatusConditionPresentAndEqual(f.Status.Conditions, ConditionFenced, wanted)
}

// outdated returns whether the status is not about the current spec.
func outdated(f *v1alpha1.NetworkFence) bool {
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionFenced)
	return found == nil || found.ObservedGeneration != f.Generation
}

// pending returns what the status says before a call ends. It does not contain the result for an
// earlier spec, because automation may read only status.result.
func pending(f *v1alpha1.NetworkFence, reason, message string) outcome {
	found := outcome{
		result: f.Status.Result, fenced: metav1.ConditionUnknown, reason: reason, message: message,
	}
	if outdated(f) {
		found.result = ""
	}
	return found
}

// describe returns the outcome of an attempt that has failed.
func describe(failure error) outcome {
	done := outcome{
		result: v1alpha1.OperationFailed, fenced: metav1.ConditionUnknown, reason: ReasonRetrying,
		message: connection.Describe(failure),
	}
	if wrong, ok := errors.AsType[*invalid](failure); ok {
		done.reason, done.message = wrong.reason, wrong.message
	}
	return done
}

// set sets a condition about the current spec, and returns whether it changes.
func (r *Reconciler) set(f *v1alpha1.NetworkFence, kind string, value metav1.ConditionStatus,
	reason, message string,
) bool {
	return meta.SetStatusCondition(&f.Status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: message,
		ObservedGeneration: f.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
}

// writeAll writes what statuses say, several at the same time. If calls is set, it writes each. It
// returns 0, or when to try again: at once if a NetworkFence has changed or is gone.
func (r *Reconciler) writeAll(ctx context.Context, writes []write, calls bool,
) (after time.Duration) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(workers)
	for _, w := range writes {
		group.Go(func() error {
			err := r.write(ctx, w.fence, w.outcome, calls)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				w.unwritten = nil
			case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
				after = sooner(after, callInterval)
			default:
				log.FromContext(ctx).Error(err, "Failed to write a status", "NetworkFence", w.fence.Name)
				after = sooner(after, serverRetry)
				if calls { // the next call is without it
					w.next = r.Clock.Now().Add(serverRetry)
				}
			}
			return nil
		})
	}
	_ = group.Wait() // no write returns an error
	return after
}

// write writes the status, and records an event if it changes. If it does not, it is written only
// before a call: the API server compares the version.
func (r *Reconciler) write(ctx context.Context, f *v1alpha1.NetworkFence, o outcome, calls bool,
) error {
	changed := f.DeepCopy()
	changed.Status.Result, changed.Status.Reason = o.result, o.reason
	changed.Status.Message = o.message
	if o.result == v1alpha1.OperationSucceeded {
		changed.Status.Message = f.Spec.FenceState.Succeeded()
	}
	r.set(changed, ConditionFenced, o.fenced, o.reason, o.message)
	r.remember(changed, o)
	expired := r.certify(changed, o)
	wanted := changed.Status
	if f.Status.Reason == "" { // the CustomResourceDefinition of another program may lack the field
		wanted.Reason = ""
	}
	unchanged := equality.Semantic.DeepEqual(wanted, f.Status)
	if unchanged && !calls {
		return nil
	}
	if err := connection.WriteStatus(ctx, r.Client, changed); err != nil {
		return err
	}
	changed.DeepCopyInto(f)
	kind, reason, message := corev1.EventTypeNormal, o.reason, o.message
	switch {
	case unchanged:
		return nil
	case expired:
		kind, reason, message = corev1.EventTypeWarning, ReasonNotVerified, o.unverified
	case o.result == v1alpha1.OperationFailed && o.reason != ReasonStarted:
		kind = corev1.EventTypeWarning
	}
	r.Events.Eventf(f, nil, kind, reason, actionFence, "%s", message)
	return nil
}
