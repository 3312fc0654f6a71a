package fence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// newFenced returns two NetworkFences that are done, and one that ends a fence.
func newFenced(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t,
		networkFence("a", v1alpha1.Fenced, "10.0.0.5/32", "10.0.0.6/32"),
		networkFence("b", v1alpha1.Fenced, "10.0.0.6/32", "10.0.0.7/32"),
		networkFence("end", v1alpha1.Unfenced, "10.0.0.9/32"))
	for _, name := range []string{"a", "b", "end"} {
		f.reconcile(name)
	}
	f.storage.calls = nil
	f.Events = events.NewFakeRecorder(10)
	return f
}

// Somebody may give clients access again. The controller does not see it.
func TestFencesAreVerifiedTogetherEveryTenMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFenced(t)
		before := f.writes
		ctx, cancel := context.WithTimeout(t.Context(), 2*verifyInterval+time.Minute)
		defer cancel()
		f.must(f.Start(ctx))
		const all = "fence 10.0.0.5/32,10.0.0.6/32,10.0.0.7/32"
		if diff := cmp.Diff([]string{all, all, all}, f.storage.calls); diff != "" {
			t.Errorf("calls at the start and in 21 minutes (-want +got):\n%s", diff)
		}
		recorder := f.Events.(*events.FakeRecorder)
		if f.writes != before || len(recorder.Events) > 0 {
			t.Errorf("fences that hold cause %d writes and %d events", f.writes-before,
				len(recorder.Events))
		}
	})
}

func TestFenceThatDoesNotHoldIsReported(t *testing.T) {
	t.Parallel()
	f := newFenced(t)
	f.storage.changed = "3"
	f.must(f.verify(t.Context(), driverName))
	recorder := f.Events.(*events.FakeRecorder)
	for range 2 {
		if got := <-recorder.Events; !strings.Contains(got, "Warning FenceRepaired") ||
			!strings.Contains(got, "3 shares") {
			t.Errorf("the event is %q", got)
		}
	}
	f.storage.changed = "-1; many"
	if err := f.verify(t.Context(), driverName); err != nil || len(recorder.Events) > 0 {
		t.Errorf("the text of a driver becomes an event: %v", err)
	}

	f.storage.result = func() error { return status.Error(codes.FailedPrecondition, "no rule left") }
	f.writing = func(*v1alpha1.NetworkFence) error { return errors.New("the API server ends") }
	if err := f.verify(t.Context(), driverName); err == nil {
		t.Error("nobody verifies the fences again if their status cannot be written")
	}
	f.writing = nil
	var before, after v1alpha1.NetworkFenceList
	f.must(f.client.List(t.Context(), &before))
	f.must(f.verify(t.Context(), driverName))
	f.must(f.client.List(t.Context(), &after))
	for i, got := range after.Items {
		name, fence := got.Name, got.Spec.FenceState == v1alpha1.Fenced
		if isLost(event.UpdateEvent{ObjectOld: &before.Items[i], ObjectNew: &got}) != fence ||
			isLost(event.UpdateEvent{ObjectOld: &got, ObjectNew: &got}) {
			t.Errorf("NetworkFence %s is not reconciled exactly if its fence is lost", name)
		}
		if !fence {
			continue
		}
		fenced := got.Status.Conditions[0]
		if fenced.Status != metav1.ConditionUnknown ||
			!strings.Contains(fenced.Message, "no rule left") ||
			got.Status.Result != v1alpha1.OperationFailed {
			t.Errorf("NetworkFence %s has the status %+v", name, got.Status)
		}
	}
	f.storage.result, f.storage.calls = nil, nil
	f.expect("a", ReasonFenced, "", "fence 10.0.0.5/32,10.0.0.6/32")
}

// A verification neither delays a change, nor reports a lost fence while the driver restarts.
func TestVerificationWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFenced(t)
		f.calling.Store(driverName, true)
		ctx, cancel := context.WithCancel(t.Context())
		go f.verifyAlways(ctx, driverName)
		<-time.After(time.Minute / 2)
		synctest.Wait()
		before := len(f.storage.calls)
		f.calling.Delete(driverName)
		<-time.After(2 * turnInterval)
		synctest.Wait()
		if after := len(f.storage.calls); before != 0 || after != 1 {
			t.Errorf("there are %d calls while the driver is busy, and %d afterwards", before, after)
		}
		cancel()
		writes := f.writes
		f.storage.leaderless = true
		if err := f.verify(t.Context(), driverName); err == nil || f.writes != writes {
			t.Errorf("without a leader the verification returns %v, and writes a status", err)
		}
	})
}

// A sidecar accepts a limited number of CIDRs in a call.
func TestVerificationOfManyClientsNeedsSeveralCalls(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range maxCIDRs {
		many = append(many, fmt.Sprintf("fd00::%x/128", i))
	}
	f := newFixture(t, networkFence("a", v1alpha1.Fenced, many...),
		networkFence("b", v1alpha1.Fenced, many[0], lost))
	f.reconcile("a")
	f.reconcile("b")
	f.storage.calls = nil
	f.must(f.verify(t.Context(), driverName))
	if got := f.storage.calls; len(got) != 2 || strings.Count(got[0], "/") != maxCIDRs ||
		strings.Count(got[1], "/") != 1 {
		t.Errorf("the calls are %q", got)
	}
}

// A driver of many shares needs several calls. The next one continues at once.
func TestCallThatTakesTooLongIsContinued(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, networkFence("a", v1alpha1.Fenced, "10.0.0.5/32"))
		left := 4
		f.storage.result = func() error {
			if left--; left >= 0 {
				<-time.After(callTimeout)
				return status.Error(codes.DeadlineExceeded, "1,000 shares")
			}
			return nil
		}
		for range 4 {
			if got, result := f.reconcile("a"); result.RequeueAfter != turnInterval ||
				got.Reason != ReasonStarted {
				t.Errorf("after a part the status is %+v, and the next call follows in %v", got,
					result.RequeueAfter)
			}
		}
		if got, _ := f.reconcile("a"); got.Result != v1alpha1.OperationSucceeded {
			t.Errorf("after five calls the status is %+v", got)
		}
	})
}
