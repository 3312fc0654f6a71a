package fence

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// ConditionVerified is True while a fence holds and was verified, and False if it was not verified
// for half an hour. It is no part of ConditionFenced: nothing says that the clients have access.
const ConditionVerified = "Verified"

// Reasons of ConditionVerified. The second is also that of an event.
const (
	ReasonVerified    = "Verified"
	ReasonNotVerified = "FenceNotVerified"
)

// verifications is when each fence was last verified, for all drivers: the driver of a NetworkFence
// is unknown while its class does not exist.
type verifications struct {
	mu sync.Mutex
	at map[types.UID]time.Time
}

// fill sets the times of the fences that hold. For those that this process has not verified, it is
// the present, or what the status says.
func (v *verifications) fill(tasks []*task, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range tasks {
		if t.kind != verifies {
			continue
		}
		at, known := v.at[t.fence.UID]
		if found := unverified(t.fence); !known && found != nil {
			at = found.LastTransitionTime.Add(-maxUnverified)
		} else if !known {
			at = now
		}
		v.at[t.fence.UID], t.verified = at, at
	}
}

func (v *verifications) set(tasks []*task, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range tasks {
		v.at[t.fence.UID] = now
	}
}

// pause leaves out the time of a call for the others with the same parameters and Secret: while
// their shares change, nothing can verify them. For one that was verified, or first seen, after the
// start of the call, only the rest of it counts.
func (v *verifications) pause(c *call, tasks []*task, ended time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range tasks {
		at, known := v.at[t.fence.UID]
		if known && !c.contains(t) && t.group() == c.tasks[0].group() {
			v.at[t.fence.UID] = at.Add(min(ended.Sub(c.began), max(ended.Sub(at), 0)))
		}
	}
}

// keep forgets the NetworkFences that do not exist any more.
func (v *verifications) keep(all []*task) {
	v.mu.Lock()
	defer v.mu.Unlock()
	kept := make(map[types.UID]time.Time, len(all))
	for _, t := range all {
		if at, known := v.at[t.fence.UID]; known {
			kept[t.fence.UID] = at
		}
	}
	v.at = kept
}

// publish publishes when the fence of a driver was verified whose verification is the longest ago.
func (r *Reconciler) publish(driver string, tasks []*task) {
	var oldest time.Time
	for _, t := range tasks {
		if t.kind == verifies && (oldest.IsZero() || t.verified.Before(oldest)) {
			oldest = t.verified
		}
	}
	r.Metrics.Verified(driver, oldest)
}

// unverified returns the condition that says that a fence was not verified, or nil.
func unverified(f *v1alpha1.NetworkFence) *metav1.Condition {
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionVerified)
	if found == nil || found.Status != metav1.ConditionFalse {
		return nil
	}
	return found
}

// holds returns the outcome of a verification: the fence holds, as before.
func holds(f *v1alpha1.NetworkFence) outcome {
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionFenced)
	return outcome{
		result: v1alpha1.OperationSucceeded, fenced: metav1.ConditionTrue, reason: ReasonFenced,
		message: found.Message,
	}
}

// expired returns the outcome if a fence was not verified for too long.
func (t *task) expired(obstacle error) outcome {
	cause := cmp.Or(t.problem, obstacle)
	if cause == nil {
		cause = fmt.Errorf("the driver is busy with other calls")
	}
	found := holds(t.fence)
	found.unverified = fmt.Sprintf("Nobody has verified since %s that the clients have no access: %s",
		t.verified.UTC().Format(time.RFC3339), describe(cause).message)
	return found
}

// certify sets or removes ConditionVerified, and returns whether it becomes False.
func (r *Reconciler) certify(f *v1alpha1.NetworkFence, o outcome) bool {
	switch {
	case o.fenced != metav1.ConditionTrue:
		meta.RemoveStatusCondition(&f.Status.Conditions, ConditionVerified)
	case o.unverified != "":
		return r.set(f, ConditionVerified, metav1.ConditionFalse, ReasonNotVerified, o.unverified)
	default:
		r.set(f, ConditionVerified, metav1.ConditionTrue, ReasonVerified,
			"The driver has confirmed that the clients have no access")
	}
	return false
}
