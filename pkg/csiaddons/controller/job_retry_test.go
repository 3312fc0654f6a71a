package controller

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// A clock that jumps neither ends a job early nor delays it for long.
func TestRetryFollowsAfterADelay(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, one := range []struct {
		retries    int32
		jump, want time.Duration
	}{
		{0, 0, 5 * time.Second},
		{1, 0, 5 * time.Second},
		{2, 0, 10 * time.Second},
		{3, 2 * time.Second, 18 * time.Second},
		{7, 0, 5 * time.Minute},
		{60, 0, 5 * time.Minute},
		{1, -24 * time.Hour, 5 * time.Second},
	} {
		r := &Jobs{Clock: testingclock.NewFakePassiveClock(now)}
		j := &v1alpha1.ReclaimSpaceJob{}
		j.Status.Retries, j.Status.StartTime = one.retries, &metav1.Time{Time: now}
		r.set(j, ConditionRunning, false, ReasonRetrying, "failed")
		r.Clock = testingclock.NewFakePassiveClock(now.Add(one.jump))
		if got := r.untilRetry(j); got != one.want || r.left(j, ReasonRetrying) <= 0 {
			t.Errorf("%v after retry %d, the next follows in %v, want %v", one.jump, one.retries, got,
				one.want)
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
		assert.Check(t, is.Equal(r.timeout(j), configured), "a call takes at most")
		j.Spec.Timeout = ptr.To(int64(1) << 62)
		assert.Check(t, is.Equal(r.timeout(j), want), "a job lets its calls take")
	}
}
