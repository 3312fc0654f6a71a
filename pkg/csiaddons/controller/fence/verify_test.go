package fence

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// withFences runs a test with two NetworkFences that are done, and one that ends a fence. The next
// verification is that after a start.
func withFences(t *testing.T, test func(*world)) {
	t.Helper()
	within(t, func(w *world) {
		w.pass(moment)
		for name, reason := range map[string]string{
			"a": ReasonFenced, "b": ReasonFenced, "end": ReasonUnfenced,
		} {
			w.expect(name, reason, "")
		}
		w.stop()
		w.calls = nil
		test(w)
	}, networkFence("a", v1alpha1.Fenced, shared, lost),
		networkFence("b", v1alpha1.Fenced, lost, "10.0.0.7/32"),
		networkFence("end", v1alpha1.Unfenced, "10.0.0.9/32"))
}

const all = "fence 10.0.0.5/32,10.0.0.6/32,10.0.0.7/32"

// Somebody may give clients access again. The controller does not see it.
func TestFencesAreVerifiedTogetherEveryTenMinutes(t *testing.T) {
	t.Parallel()
	withFences(t, func(w *world) {
		before, _ := w.writes, w.sent()
		w.start()
		w.expectCalls(all)
		w.pass(2*verifyInterval + time.Minute)
		w.expectCalls(all, all)
		assert.Check(t, is.Len(w.sent(), 0), "events of fences that hold")
		assert.Check(t, is.Equal(w.writes, before), "writes for fences that hold")
	})
}

func TestFenceThatDoesNotHoldIsReported(t *testing.T) {
	t.Parallel()
	withFences(t, func(w *world) {
		w.changed = "3"
		w.sent()
		w.start()
		sent := w.sent()
		for _, event := range sent {
			assert.Check(t, strings.Contains(event, "Warning FenceRepaired") &&
				strings.Contains(event, "3 shares"), "the event is %q", event)
		}
		assert.Check(t, len(sent) == 2, "the events are %q", sent)
		assert.Check(t, is.Equal(w.metric("csi_addons_fence_repaired_shares_total"), 3.0))
		w.changed = "-1; many"
		w.pass(verifyInterval)
		assert.Check(t, is.Len(w.sent(), 0), "the text of a driver becomes an event")

		// A fence that is lost is repeated.
		w.answer = refuse(notNow(codes.Unavailable), "fence")
		w.pass(verifyInterval)
		for _, name := range []string{"a", "b"} {
			w.expect(name, ReasonRetrying, "not now")
		}
		w.expect("end", ReasonUnfenced, "")
		assert.Check(t, is.Contains(w.sent()[0], "Warning Retrying"))
		w.answer = nil
		w.pass(5 * time.Minute)
		for _, name := range []string{"a", "b"} {
			w.expect(name, ReasonFenced, "")
		}
	})
}

// A sidecar accepts a limited number of CIDRs in a call.
func TestVerificationOfManyClientsNeedsSeveralCalls(t *testing.T) {
	t.Parallel()
	addresses := many("fd00::%x/128", maxCIDRs)
	within(t, func(w *world) {
		w.pass(time.Minute)
		w.calls = nil
		w.restart()
		w.pass(time.Minute)
		sizes := map[int]int{}
		for _, call := range w.calls {
			sizes[strings.Count(call, "/")]++
		}
		assert.Check(t, sizes[maxCIDRs] == 1 && len(w.calls) == 2, "numbers of CIDRs: %v", sizes)
	}, networkFence("a", v1alpha1.Fenced, addresses...),
		networkFence("b", v1alpha1.Fenced, addresses[0], lost))
}

// A verification that ends by the limit of a call is no failure.
func TestVerificationThatTakesTooLongContinues(t *testing.T) {
	t.Parallel()
	withFences(t, func(w *world) {
		w.answer = func(ctx context.Context, _ string) error {
			w.answer = nil
			<-ctx.Done()
			return ctxError(ctx)
		}
		w.start()
		w.pass(callTimeout + time.Minute)
		w.expect("a", ReasonFenced, "")
		w.expectCalls(all, all)
	})
}

// A verification of three classes with slow calls delays an urgent fence by less than 5 s, and the
// end of a fence by one call.
func TestFenceInterruptsAVerification(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		const slow = 170 * time.Second
		w.answer = takes(slow)
		w.calls = nil
		w.restart()
		w.pass(time.Minute)
		w.must(w.client.Create(t.Context(), networkFence("urgent", v1alpha1.Fenced, lost)))
		took := w.awaitReason("urgent", ReasonFenced)
		assert.Check(t, took <= slow+5*time.Second, "an urgent fence took %v", took)
		w.pass(time.Second)
		assert.Check(t, is.DeepEqual([]string{w.calls[0], "fence " + lost, w.calls[0]}, w.calls))
		w.must(w.client.Create(t.Context(), networkFence("end", v1alpha1.Unfenced, "10.0.0.9/32")))
		took = w.awaitReason("end", ReasonUnfenced)
		assert.Check(t, took >= slow && took <= 2*slow+5*time.Second, "an end of a fence took %v", took)
		w.pass(verifyInterval)
		for _, cidr := range []string{"10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32"} {
			assert.Check(t, is.Contains(w.calls, "fence "+cidr))
		}
	}, class("a", manila, "x", "a"), class("b", manila, "x", "b"), class("c", manila, "x", "c"),
		ofClass("a", "a", "10.0.0.1/32"), ofClass("b", "b", "10.0.0.2/32"),
		ofClass("c", "c", "10.0.0.3/32"))
}

// The last verification is never in the future.
func TestPauseEndsWithTheCall(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	ended := began.Add(time.Minute)
	for at, want := range map[time.Time]time.Time{
		began.Add(-time.Minute): began, began.Add(time.Second): ended, ended.Add(1): ended.Add(1),
	} {
		one := &task{turn: &turn{}, fence: networkFence("a", v1alpha1.Fenced, lost)}
		running := &call{tasks: []*task{{turn: &turn{}}}, began: began}
		v := verifications{at: map[types.UID]time.Time{one.fence.UID: at}}
		v.pause(running, []*task{one}, ended)
		assert.Check(t, v.at[one.fence.UID].Equal(want), "%v becomes %v", at, v.at[one.fence.UID])
	}
}
