package controller

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

func TestRetryDelayDoublesUpToFiveMinutes(t *testing.T) {
	t.Parallel()
	for retry, want := range map[int32]time.Duration{
		0: 5 * time.Second, 1: 5 * time.Second, 2: 10 * time.Second, 3: 20 * time.Second,
		7: 5 * time.Minute, 60: 5 * time.Minute,
	} {
		if got := retryDelay(retry); got != want {
			t.Errorf("the delay before retry %d is %v, want %v", retry, got, want)
		}
	}
}

// A clock that jumps neither ends a job early nor delays it for long.
func TestRetryFollowsAfterAClockJump(t *testing.T) {
	t.Parallel()
	now := time.Now()
	clock := testingclock.NewFakePassiveClock(now)
	r := &Jobs{Clock: clock}
	j := &v1alpha1.ReclaimSpaceJob{}
	j.Status.Retries = 1
	j.Status.StartTime = &metav1.Time{Time: now}
	r.set(j, ConditionRunning, false, ReasonRetrying, "failed")
	for jump, want := range map[time.Duration]time.Duration{
		0: 5 * time.Second, 2 * time.Second: 3 * time.Second, -24 * time.Hour: 5 * time.Second,
	} {
		clock.SetTime(now.Add(jump))
		if got := r.untilRetry(j); got != want {
			t.Errorf("after a jump of %v, the next attempt follows in %v, want %v", jump, got, want)
		}
		if r.left(j, ReasonRetrying) <= 0 {
			t.Errorf("after a jump of %v, the deadline is over", jump)
		}
	}
}

func TestDeadlineStartsWithTheFirstTurn(t *testing.T) {
	t.Parallel()
	now := time.Now()
	clock := testingclock.NewFakePassiveClock(now.Add(11 * time.Minute))
	r := &Jobs{Clock: clock}
	j := &v1alpha1.ReclaimSpaceJob{ObjectMeta: metav1.ObjectMeta{
		CreationTimestamp: metav1.NewTime(now),
	}}
	if r.left(j, ReasonNoSidecar) <= 0 {
		t.Error("the deadline of a job that waits for its turn is over")
	}
	j.Status.StartTime = &metav1.Time{Time: now}
	if r.left(j, ReasonNoSidecar) > 0 {
		t.Error("a job has more time than the default")
	}
	for seconds, want := range map[int64]bool{0: true, 30: true, 1800: false} {
		j.Spec.RetryDeadlineSeconds = ptr.To(seconds)
		if got := r.left(j, ReasonRetrying) <= 0; got != want {
			t.Errorf("with a deadline of %d s, the time is over: %v, want %v", seconds, got, want)
		}
	}
}

func TestJobLimitsItsCallsToAnHour(t *testing.T) {
	t.Parallel()
	for configured, want := range map[time.Duration]time.Duration{
		time.Minute: time.Hour, 3 * time.Hour: 3 * time.Hour,
	} {
		r := &Jobs{Options: Options{ReclaimSpaceTimeout: configured}}
		j := &v1alpha1.ReclaimSpaceJob{}
		if got := r.timeout(j); got != configured {
			t.Errorf("a call takes at most %v, want %v", got, configured)
		}
		j.Spec.Timeout = ptr.To(int64(1) << 62)
		if got := r.timeout(j); got != want {
			t.Errorf("a job lets its calls take %v, want %v", got, want)
		}
	}
}
