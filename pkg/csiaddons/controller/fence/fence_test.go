package fence

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// refuse returns a driver that returns an error for some clients.
func refuse(code codes.Code, client string,
) func(context.Context, string, *wire.NetworkFenceRequest) error {
	return func(_ context.Context, call string, _ *wire.NetworkFenceRequest) error {
		if strings.Contains(call, client) {
			return status.Error(code, "not now")
		}
		return nil
	}
}

// Ramen reads only status.result. So the result of a fence must not be there when its end starts.
func TestResultOfAnEarlierSpecDoesNotStay(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		w.expect("a", ReasonFenced, "The clients have no access")
		w.expectCalls("fence " + lost)
		w.answer = func(context.Context, string, *wire.NetworkFenceRequest) error {
			if got := w.get("a").Status; got.Result != "" || got.Reason != ReasonStarted {
				t.Errorf("during the call the status is %+v", got)
			}
			return nil
		}
		w.unfence("a")
		w.expect("a", ReasonUnfenced, "The fence of the clients has ended")
		w.expectCalls("unfence " + lost)
		w.restart()
		w.change("a", func(spec *v1alpha1.NetworkFenceSpec) { spec.Cidrs = []string{shared} })
		w.expectCalls("unfence " + shared)
	}, networkFence("a", v1alpha1.Fenced, lost))
}

func TestObjectsThatNeedAChangeCauseNoCall(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range maxCIDRs + 1 {
		many = append(many, fmt.Sprintf("fd00::%x/128", i))
	}
	foreign := networkFence("foreign", v1alpha1.Fenced, lost)
	foreign.Spec.Driver = "other"
	within(t, func(w *world) {
		w.expect("address", ReasonInvalidCIDR, `"10.0.0.5", which is no CIDR`)
		w.expect("none", ReasonInvalidCIDR, "0 CIDRs")
		w.expect("many", ReasonInvalidCIDR, "1025 CIDRs")
		w.expect("foreign", ReasonNoDriver, `does not serve the driver "other"`)
		w.expect("reserved", ReasonInvalidClass, v1alpha1.ReservedParameterPrefix+"x")
		w.expect("half", ReasonInvalidClass, "only one of the name and the namespace")
		w.expect("missing", ReasonRetrying, "NetworkFenceClass missing does not exist")
		w.expectCalls()
		w.delete(class("half", ceph))
		w.create(class("half", ceph))
		w.expect("half", ReasonFenced, "")
		w.create(class("missing", manila))
		w.expect("missing", ReasonFenced, "")
		w.change("address", func(spec *v1alpha1.NetworkFenceSpec) { spec.Cidrs = []string{shared} })
		w.expect("address", ReasonFenced, "")
		w.expectCalls("fence "+lost, "fence 10.0.0.7/32", "fence "+shared)
	}, networkFence("address", v1alpha1.Fenced, "10.0.0.5"), networkFence("none", v1alpha1.Fenced),
		networkFence("many", v1alpha1.Fenced, many...), foreign,
		class("reserved", manila, v1alpha1.ReservedParameterPrefix+"x", "1"),
		ofClass("reserved", "reserved", lost),
		class("half", ceph, v1alpha1.NetworkFenceSecretNameParameter, "1"),
		ofClass("half", "half", lost), ofClass("missing", "missing", "10.0.0.7/32"))
}

// A deletion changes nothing in the storage, and a class that was deleted ends no fence.
func TestDeletionCausesNoCall(t *testing.T) {
	t.Parallel()
	a := ofClass("shares", "a", lost)
	a.Finalizers = []string{v1alpha1.NetworkFenceFinalizer} // of the CSI-Addons for Ceph
	within(t, func(w *world) {
		w.expect("a", ReasonFenced, "")
		w.expectCalls("fence " + lost)
		w.delete(class("shares", manila))
		w.expect("a", ReasonFenced, "")
		w.leaderless = true
		w.delete(networkFence("a", v1alpha1.Fenced))
		if got := w.client.Get(t.Context(), clientKey("a"), a); !apierrors.IsNotFound(got) {
			t.Errorf("the finalizer stays: %v", got)
		}
		w.expectCalls()
	}, a, class("shares", manila))
}

// The write before a call fails if somebody has changed or deleted the NetworkFence.
func TestNetworkFenceThatHasChangedIsNotExecuted(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		w.writing = func(written *v1alpha1.NetworkFence) error {
			w.writing = nil
			w.must(w.client.Delete(t.Context(), written))
			return nil
		}
		w.create(networkFence("a", v1alpha1.Fenced, lost))
		w.expectCalls()
		w.writing = func(*v1alpha1.NetworkFence) error {
			w.writing = nil
			changed := w.get("b")
			changed.Generation++
			changed.Spec.Cidrs = []string{shared}
			w.must(w.client.Update(t.Context(), changed))
			return nil
		}
		w.create(networkFence("b", v1alpha1.Fenced, lost))
		w.pass(time.Minute)
		w.expectCalls("fence " + shared)
	})
}

// Each call depends on what exists when it starts, also after a crash during the same call: then
// the write does not change the status.
func TestStartIsWrittenBeforeEachCall(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		crash := func(context.Context, string, *wire.NetworkFenceRequest) error {
			w.expect("a", ReasonStarted, "Pod  changes the access of the clients: Fenced")
			assert.Check(t, w.writes == 1, "the status was written %d times before the call", w.writes)
			w.writing = func(*v1alpha1.NetworkFence) error { return apierrors.NewInternalError(nil) }
			return nil
		}
		w.answer = crash
		w.create(networkFence("a", v1alpha1.Fenced, lost))
		w.writes, w.writing = 0, nil
		w.restart()
		w.writes, w.writing, w.answer = 0, nil, nil
		w.restart()
		w.expect("a", ReasonFenced, "")
		w.expectCalls("fence "+lost, "fence "+lost, "fence "+lost)
	})
}

func TestFailureIsRepeatedUntilItEnds(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.InvalidArgument, codes.Unimplemented} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			within(t, func(w *world) {
				w.answer = refuse(code, lost)
				w.create(networkFence("a", v1alpha1.Fenced, lost))
				w.expect("a", ReasonRetrying, code.String()+": not now")
				w.pass(time.Minute)
				w.expectCalls(slices.Repeat([]string{"fence " + lost}, 4)...) // after 5, 15 and 35 s
				w.leaderless = true
				w.change("a", func(spec *v1alpha1.NetworkFenceSpec) { spec.Cidrs = []string{shared} })
				w.expect("a", ReasonRetrying, "not connected to the pod that is the leader of driver manila")
				w.leaderless = false
				w.pass(5 * time.Minute)
				w.expect("a", ReasonFenced, "")
				w.expectCalls("fence " + shared)
			})
		})
	}
}

// A driver has one call at a time. Others do not wait for it.
func TestDriverHasOneCallAtATime(t *testing.T) {
	t.Parallel()
	other := networkFence("other", v1alpha1.Fenced, lost)
	other.Spec.Driver = ceph
	within(t, func(w *world) {
		w.answer = func(_ context.Context, call string, _ *wire.NetworkFenceRequest) error {
			if strings.HasSuffix(call, shared) {
				<-time.After(time.Minute)
			}
			return nil
		}
		w.create(networkFence("a", v1alpha1.Fenced, shared))
		w.create(networkFence("b", v1alpha1.Unfenced, lost))
		if got := w.get("b").Status; got.Result != "" || got.Reason != ReasonWaiting {
			t.Errorf("during another call the status is %+v", got)
		}
		w.create(other)
		w.expect("other", ReasonFenced, "")
		w.pass(time.Minute)
		w.expect("a", ReasonFenced, "")
		w.expect("b", ReasonUnfenced, "")
		w.expectCalls("fence "+shared, "fence "+lost, "unfence "+lost)
	})
}

// A node that the driver refuses does not keep the others of a rack from being fenced. A driver
// that names it needs two calls for the others.
func TestOneRefusedAmongTwenty(t *testing.T) {
	t.Parallel()
	const refused = "10.0.0.107/32"
	address := func(i int) string { return fmt.Sprintf("10.0.0.%d/32", 100+i) }
	named, err := status.New(codes.FailedPrecondition, "not now").WithDetails(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: refused}, {Field: "x"}},
	})
	assert.NilError(t, err)
	for name, test := range map[string]struct {
		failure   error
		sizes     []int // the numbers of clients of the first calls
		unrefused string
	}{
		"named": {named.Err(), []int{20, 19, 1}, ReasonFenced},
		"not named": {
			status.Error(codes.Internal, "not now"), slices.Concat([]int{20}, slices.Repeat([]int{1}, 20)),
			ReasonFenced,
		},
		"no driver": {status.Error(codes.Unavailable, "not now"), []int{20, 20}, ReasonRetrying},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			within(t, func(w *world) {
				w.answer = func(_ context.Context, call string, _ *wire.NetworkFenceRequest) error {
					if strings.Contains(call, refused) {
						return test.failure
					}
					return nil
				}
				for i := range 20 {
					w.must(w.client.Create(t.Context(),
						networkFence(fmt.Sprintf("node-%d", i), v1alpha1.Fenced, address(i))))
				}
				w.pass(firstRetry + time.Second)
				var sizes []int
				for _, call := range w.calls[:len(test.sizes)] {
					sizes = append(sizes, strings.Count(call, "/"))
				}
				assert.Check(t, slices.Equal(sizes, test.sizes),
					"the numbers of clients of the calls are %v, want %v", sizes, test.sizes)
				for i := range 20 {
					reason := test.unrefused
					if address(i) == refused {
						reason = ReasonRetrying
					}
					w.expect(fmt.Sprintf("node-%d", i), reason, "")
				}
			})
		})
	}
}

// Fences come first, and a call contains those with the same parameters and Secret.
func TestCallContainsWhatBelongsTogether(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		w.pass(time.Minute)
		w.expectCalls("fence 10.0.0.1/32,10.0.0.2/32", "fence 10.0.0.3/32", "fence 10.0.0.4/32",
			"unfence 10.0.0.5/32,10.0.0.6/32")
	}, class("a", manila), class("b", manila, "x", "1"),
		class("c", manila, v1alpha1.NetworkFenceSecretNameParameter, "n",
			v1alpha1.NetworkFenceSecretNamespaceParameter, "n"),
		networkFence("a", v1alpha1.Unfenced, shared), networkFence("b", v1alpha1.Unfenced, lost),
		ofClass("a", "c", "10.0.0.1/32"), ofClass("a", "d", "10.0.0.2/32"),
		ofClass("b", "e", "10.0.0.3/32"), ofClass("c", "f", "10.0.0.4/32"))
}

// Earlier releases made no call after seven refusals.
func TestNetworkFenceOfAnEarlierReleaseIsCalled(t *testing.T) {
	t.Parallel()
	refused := networkFence("a", v1alpha1.Fenced, lost)
	refused.Status = v1alpha1.NetworkFenceStatus{
		Result: v1alpha1.OperationFailed, Reason: "Refused", Conditions: []metav1.Condition{{
			Type: ConditionFenced, Status: metav1.ConditionUnknown, Reason: "Refused", ObservedGeneration: 1,
		}},
	}
	within(t, func(w *world) { w.expect("a", ReasonFenced, "") }, refused)
}

// A driver of many shares needs several calls. The next one continues at once. After three, the
// status says how far they are, and the end of another fence has a turn.
func TestCallThatTakesTooLongIsContinued(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		left := 1000
		w.answer = func(ctx context.Context, call string, _ *wire.NetworkFenceRequest) error {
			if strings.HasPrefix(call, "unfence") {
				return nil
			}
			if left -= 200; left <= 0 {
				return nil
			}
			deadline, _ := ctx.Deadline()
			<-time.After(time.Until(deadline) - 5*time.Second)
			return status.Errorf(codes.DeadlineExceeded, "%d of 1000 shares did not change", left)
		}
		w.create(networkFence("a", v1alpha1.Fenced, lost))
		w.create(networkFence("end", v1alpha1.Unfenced, shared))
		w.pass(2 * callTimeout)
		w.expect("a", ReasonStarted, "")
		w.expect("end", ReasonWaiting, "")
		w.pass(callTimeout)
		w.expect("a", ReasonRetrying, "DeadlineExceeded: 400 of 1000 shares did not change")
		w.expect("end", ReasonUnfenced, "")
		w.pass(callTimeout)
		w.expect("a", ReasonFenced, "")
		w.expectCalls("fence "+lost, "fence "+lost, "fence "+lost, "unfence "+shared, "fence "+lost,
			"fence "+lost)
	})
}
