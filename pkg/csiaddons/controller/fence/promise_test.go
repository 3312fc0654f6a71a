package fence

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// takes returns a driver whose calls take some time, unless they are canceled.
func takes(duration time.Duration) func(context.Context, string) error {
	return func(ctx context.Context, _ string) error {
		select {
		case <-ctx.Done():
			return ctxError(ctx)
		case <-time.After(duration):
			return nil
		}
	}
}

// awaitReason waits for the reason of a status, and returns how long it took.
func (w *world) awaitReason(name, reason string) time.Duration {
	w.Helper()
	began := time.Now()
	for w.get(name).Status.Reason != reason {
		assert.Assert(w, time.Since(began) < time.Hour, "NetworkFence %s has the status %v", name,
			w.get(name).Status)
		w.pass(time.Second)
	}
	return time.Since(began)
}

// After one error, the next attempt waits 5 s, and not for a verification.
func TestRetryOfAFenceCancelsAVerification(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		failures := 4
		slow := takes(14 * time.Minute)
		w.answer = func(ctx context.Context, call string) error {
			switch {
			case !strings.Contains(call, lost):
				return slow(ctx, call)
			case failures > 0:
				failures--
				return notNow(codes.Unavailable)
			default:
				return nil
			}
		}
		w.restart()
		w.create(networkFence("urgent", v1alpha1.Fenced, lost))
		w.expect("urgent", ReasonRetrying, "not now")
		w.pass(firstRetry + 2*firstRetry + 4*firstRetry)
		assert.Check(t, is.Equal(failures, 0), "failures that are left after three retries")
		took := w.awaitReason("urgent", ReasonFenced) // the fourth retry does not cancel
		assert.Check(t, took > 13*time.Minute && took < 15*time.Minute, "it took %v", took)
	}, networkFence("old", v1alpha1.Fenced, shared))
}

// A verification that is overdue is canceled only by first attempts, and has a turn after calls
// that took too long.
func TestVerificationDoesNotStarve(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		verified := 0
		w.answer = func(ctx context.Context, call string) error {
			if strings.Contains(call, lost) {
				<-ctx.Done()
				return ctxError(ctx)
			}
			verified++
			return nil
		}
		w.must(w.client.Create(t.Context(), networkFence("endless", v1alpha1.Fenced, lost)))
		w.pass(maxLate*callTimeout + time.Minute)
		verified = 0
		w.pass(2 * callTimeout)
		assert.Check(t, is.Equal(verified, 1), "verifications between calls that take too long")

		w.answer = takes(10 * time.Minute)
		w.pass(time.Hour)
		w.answer = func(ctx context.Context, call string) error {
			if strings.Contains(call, lost) {
				return notNow(codes.Unavailable)
			}
			verified++
			return takes(10*time.Minute)(ctx, call)
		}
		w.leaderless = true
		w.pass(maxUnverified)
		w.leaderless, verified = false, 0
		w.change("endless", func(*v1alpha1.NetworkFenceSpec) {})
		w.pass(11 * time.Minute)
		assert.Check(t, is.Equal(verified, 1), "an overdue verification is canceled by a retry")
	}, networkFence("old", v1alpha1.Fenced, shared))
}

// However long there is no leader, a fence starts within 5 s after there is one. The same is true
// if the pod of the leader says that it does not lead.
func TestFenceStartsAsSoonAsThereIsALeader(t *testing.T) {
	t.Parallel()
	waits, err := status.New(codes.FailedPrecondition, "no pod is the leader").WithDetails(
		&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	assert.NilError(t, err)
	within(t, func(w *world) {
		w.answer = func(context.Context, string) error { return waits.Err() }
		w.create(networkFence("b", v1alpha1.Fenced, shared))
		w.pass(10 * time.Minute)
		w.answer = nil
		took := w.awaitReason("b", ReasonFenced)
		assert.Check(t, took <= firstRetry+time.Second, "it took %v", took)
	})
	within(t, func(w *world) {
		w.leaderless = true
		w.create(networkFence("a", v1alpha1.Fenced, lost))
		w.expect("a", ReasonRetrying, "not connected to the pod that is the leader of driver manila")
		w.expectQuiet(time.Hour)
		w.leaderless = false
		took := w.awaitReason("a", ReasonFenced)
		assert.Check(t, took <= 6*time.Second, "it took %v", took)
	})
}

// The plugin of Ceph works on after the cancel of a call.
func TestEndOfAFenceDoesNotFollowACanceledVerification(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		w.answer = takes(14 * time.Minute)
		w.restart()
		w.calls = nil
		w.writing = func(written *v1alpha1.NetworkFence) error { // after the cancel, before its call
			if written.Name == "urgent" {
				w.writing = nil
				w.must(w.client.Delete(t.Context(), written))
			}
			return nil
		}
		w.must(w.client.Create(t.Context(), networkFence("urgent", v1alpha1.Fenced, lost)))
		w.create(networkFence("end", v1alpha1.Unfenced, "10.0.0.9/32"))
		w.expectCalls("fence " + shared)
		w.pass(15 * time.Minute)
		w.expectCalls("unfence 10.0.0.9/32")
	}, networkFence("old", v1alpha1.Fenced, shared))
}

// The manager releases its Lease when its runnables have ended. Then no call may run.
func TestCallsEndBeforeTheManager(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		ended := false
		w.answer = func(ctx context.Context, _ string) error {
			<-ctx.Done()
			<-time.After(10 * time.Second)
			ended = true
			return ctxError(ctx)
		}
		w.create(networkFence("a", v1alpha1.Unfenced, lost))
		w.stop()
		assert.Check(t, ended, "the manager has ended before its call")
		w.answer = nil
		w.start()
		w.expect("a", ReasonUnfenced, "")
		w.expectCalls("unfence "+lost, "unfence "+lost)
	})
}

// A result is about the spec that was sent, whatever has changed since.
func TestLateResultIsNotAboutANewSpec(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		w.answer = takes(time.Minute)
		w.create(networkFence("changed", v1alpha1.Fenced, lost))
		w.must(w.client.Create(t.Context(), networkFence("labeled", v1alpha1.Fenced, shared)))
		w.change("changed", func(s *v1alpha1.NetworkFenceSpec) { s.Cidrs = []string{"10.0.0.7/32"} })
		w.expect("changed", ReasonWaiting, "")
		w.pass(time.Minute)
		labeled := w.get("labeled")
		labeled.Labels = map[string]string{"a": "b"}
		w.must(w.client.Update(t.Context(), labeled))
		w.expect("changed", ReasonStarted, "")
		w.pass(time.Minute)
		w.expect("changed", ReasonFenced, "")
		w.expect("labeled", ReasonFenced, "")
		w.expectCalls("fence "+lost, "fence "+shared+",10.0.0.7/32")
	})
}

// A status that cannot be written does not repeat the call.
func TestResultIsWrittenWhenTheServerAcceptsIt(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		down := true
		w.writing = func(written *v1alpha1.NetworkFence) error {
			if down && written.Status.Reason == ReasonFenced {
				return fmt.Errorf("the API server is down")
			}
			return nil
		}
		w.create(networkFence("a", v1alpha1.Fenced, lost))
		w.pass(5 * time.Minute)
		w.expect("a", ReasonStarted, "")
		down = false
		took := w.awaitReason("a", ReasonFenced)
		assert.Check(t, took <= firstRetry+time.Second, "it took %v", took)
		w.expectCalls("fence " + lost)
	})
}

// Whatever keeps a fence from being verified, somebody learns of it. Before that, nobody does: the
// pod of a driver may be replaced, which does not mean that a fence is lost.
func TestFenceThatNobodyVerifiesSaysSo(t *testing.T) {
	t.Parallel()
	foreign := networkFence("foreign", v1alpha1.Fenced, lost)
	foreign.Spec.Driver = "other"
	foreign.Status.Conditions = []metav1.Condition{{
		Type: ConditionFenced, Status: metav1.ConditionTrue, Reason: ReasonFenced, ObservedGeneration: 1,
	}}
	within(t, func(w *world) {
		w.expectVerified("a", metav1.ConditionTrue, "has confirmed")
		w.expectVerified("c", metav1.ConditionTrue, "has confirmed")
		verified := func() time.Duration {
			return time.Since(time.Unix(int64(w.metric("csi_addons_fence_verified_timestamp_seconds")), 0))
		}
		w.create(ofClass("shares", "later", "10.0.0.8/32"))
		assert.Check(t, verified() > moment && verified() < maxUnverified, "metric: %v", verified())
		w.delete(ofClass("shares", "later"))
		w.delete(class("shares", manila))
		w.leaderless, w.calls = true, nil
		w.sent()
		w.pass(maxUnverified + time.Minute)
		w.expectVerified("a", metav1.ConditionFalse, "NetworkFenceClass shares does not exist")
		w.expectVerified("c", metav1.ConditionFalse, "not connected to the pod that is the leader")
		w.expectVerified("foreign", metav1.ConditionFalse, `does not serve the driver "other"`)
		assert.Check(t, is.Len(w.sent(), 3), "events")
		assert.Check(t, verified() > maxUnverified && verified() < time.Hour, "metric: %v", verified())
		w.expectQuiet(time.Hour)
		w.restart() // the process does not know the time any more
		w.pass(maxUnverified)
		w.expectVerified("c", metav1.ConditionFalse, "Nobody has verified since ")
		w.expect("c", ReasonFenced, "")

		w.leaderless = false
		w.create(class("shares", manila))
		w.pass(leaderInterval)
		for _, name := range []string{"a", "c"} {
			w.expectVerified(name, metav1.ConditionTrue, "has confirmed")
		}
		assert.Check(t, !strings.Contains(fmt.Sprint(w.sent()), ReasonNotVerified), "events")
		w.unfence("c")
		w.unfence("a")
		assert.Check(t, is.Equal(w.metric("csi_addons_fence_verified_timestamp_seconds"), -1.0))
		assert.Check(t, meta.FindStatusCondition(w.get("c").Status.Conditions, ConditionVerified) == nil)
	}, class("shares", manila), ofClass("shares", "a", lost),
		networkFence("c", v1alpha1.Fenced, shared), foreign)
}

// The time in which a fence changes the same shares does not count: nothing could verify them.
func TestFenceOfManySharesLeavesTheOthersVerified(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		left := 3
		w.answer = func(_ context.Context, call string) error {
			if left--; left < 0 || !strings.Contains(call, lost) {
				return nil
			}
			<-time.After(callTimeout - time.Second)
			return status.Error(codes.DeadlineExceeded, "many shares")
		}
		w.pass(9 * time.Minute)
		w.create(networkFence("many", v1alpha1.Fenced, lost))
		for range 60 {
			w.pass(time.Minute)
			w.expectVerified("old", metav1.ConditionTrue, "")
		}
		w.expect("many", ReasonFenced, "")
	}, networkFence("old", v1alpha1.Fenced, shared))
}

func (w *world) expectVerified(name string, wanted metav1.ConditionStatus, message string) {
	w.Helper()
	found := meta.FindStatusCondition(w.get(name).Status.Conditions, ConditionVerified)
	assert.Check(w, found != nil && found.Status == wanted && strings.Contains(found.Message, message),
		"NetworkFence %s has the condition %v, want %v: %s", name, found, wanted, message)
}

// The calls of a driver do not depend on the order in which the API server lists NetworkFences.
func TestFirstCallIsOfTheEarliest(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		w.answer = takes(time.Minute)
		w.create(class("z", manila, "x", "z"))
		w.create(networkFence("now", v1alpha1.Fenced, "10.0.0.1/32"))
		w.create(ofClass("z", "z-first", shared))
		w.create(networkFence("a-second", v1alpha1.Fenced, lost))
		w.pass(3 * time.Minute)
		w.expectCalls("fence 10.0.0.1/32", "fence "+shared, "fence "+lost)
	})
}
