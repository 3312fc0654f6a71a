package fence

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// notNow is an error of a driver.
func notNow(code codes.Code) error { return status.Error(code, "not now") }

// refuse returns a driver that returns an error for some clients.
func refuse(err error, client string) func(context.Context, string) error {
	return func(_ context.Context, call string) error {
		if strings.Contains(call, client) {
			return err
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
		w.answer = func(context.Context, string) error {
			got := w.get("a").Status
			assert.Check(t, got.Result == "" && got.Reason == ReasonStarted, "status in the call: %+v", got)
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
		networkFence("many", v1alpha1.Fenced, many("fd00::%x/128", maxCIDRs+1)...), foreign,
		class("reserved", manila, v1alpha1.ReservedParameterPrefix+"x", "1"),
		ofClass("reserved", "reserved", lost),
		class("half", ceph, v1alpha1.NetworkFenceSecretNameParameter, "1"),
		ofClass("half", "half", lost), ofClass("missing", "missing", "10.0.0.7/32"))
}

// Somebody, or another program, may have written a status that is wrong.
func TestStatusOfAStrangerIsCorrected(t *testing.T) {
	t.Parallel()
	wrong := networkFence("wrong", v1alpha1.Unfenced, shared)
	wrong.Status.Conditions = []metav1.Condition{{
		Type: ConditionFenced, Status: metav1.ConditionTrue, Reason: ReasonFenced, ObservedGeneration: 1,
	}}
	within(t, func(w *world) {
		w.expect("wrong", ReasonUnfenced, "")
		w.create(networkFence("a", v1alpha1.Fenced, lost))
		w.expectCalls("unfence "+shared, "fence "+lost)
		edit := func(change func(*v1alpha1.NetworkFenceStatus)) {
			a := w.get("a")
			change(&a.Status)
			w.must(w.client.Status().Update(t.Context(), a))
			w.pass(moment)
		}
		edit(func(s *v1alpha1.NetworkFenceStatus) { *s = v1alpha1.NetworkFenceStatus{} })
		w.expect("a", ReasonFenced, "")
		w.expectCalls("fence " + lost)
		edit(func(s *v1alpha1.NetworkFenceStatus) { s.Result = v1alpha1.OperationFailed })
		w.pass(verifyInterval)
		w.expect("a", ReasonFenced, "")
	}, wrong)
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
		w.delete(a)
		err := w.client.Get(t.Context(), client.ObjectKeyFromObject(a), a)
		assert.Check(t, apierrors.IsNotFound(err), "the finalizer stays: %v", err)
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
		w.writing = func(*v1alpha1.NetworkFence) error { // a label changes no spec, so there is no event
			w.writing = nil
			changed := w.get("c")
			changed.Labels = map[string]string{"a": "b"}
			w.must(w.client.Update(t.Context(), changed))
			return nil
		}
		w.must(w.client.Create(t.Context(), networkFence("c", v1alpha1.Fenced, "10.0.0.7/32")))
		w.pass(time.Second)
		w.expectCalls("fence 10.0.0.7/32")
	})
}

// Each call depends on what exists when it starts, also after a crash during the same call: then
// the write does not change the status.
func TestStartIsWrittenBeforeEachCall(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		crash := func(context.Context, string) error {
			w.expect("a", ReasonStarted, "Pod  changes the access of the clients: Fenced")
			assert.Check(t, w.writes == 1, "the status was written %d times before the call", w.writes)
			w.writing = func(*v1alpha1.NetworkFence) error { return errors.New("the disk is full") }
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
		within(t, func(w *world) {
			w.answer = refuse(notNow(code), lost)
			w.create(networkFence("a", v1alpha1.Fenced, lost))
			w.expect("a", ReasonRetrying, code.String()+": not now")
			w.pass(time.Minute)
			w.expectCalls(slices.Repeat([]string{"fence " + lost}, 4)...) // after 5, 15 and 35 s
			w.change("a", func(spec *v1alpha1.NetworkFenceSpec) { spec.Cidrs = []string{shared} })
			w.expect("a", ReasonFenced, "")
			w.expectCalls("fence " + shared)
		})
	}
}

// A driver has one call at a time. Others do not wait for it.
func TestDriverHasOneCallAtATime(t *testing.T) {
	t.Parallel()
	other := networkFence("other", v1alpha1.Fenced, lost)
	other.Spec.Driver = ceph
	within(t, func(w *world) {
		w.answer = func(_ context.Context, call string) error {
			if strings.HasSuffix(call, shared) {
				<-time.After(time.Minute)
			}
			return nil
		}
		w.create(networkFence("a", v1alpha1.Fenced, shared))
		w.create(networkFence("b", v1alpha1.Unfenced, lost))
		got := w.get("b").Status
		assert.Check(t, got.Result == "" && got.Reason == ReasonWaiting, "status in the call: %+v", got)
		w.create(other)
		w.expect("other", ReasonFenced, "")
		w.pass(time.Minute)
		w.expect("a", ReasonFenced, "")
		w.expect("b", ReasonUnfenced, "")
		w.expectCalls("fence "+shared, "fence "+lost, "unfence "+lost)
	})
}

// A node that the driver refuses does not keep the others of a rack from being fenced. A driver
// that names it needs two calls for the others. An error that is about the driver or its sidecar is
// no reason to call each node alone.
func TestOneRefusedAmongTwenty(t *testing.T) {
	t.Parallel()
	const refused = "10.0.0.7/32"
	addresses := many("10.0.0.%d/32", 20)
	named, err := status.New(codes.FailedPrecondition, "not now").WithDetails(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: refused}, {Field: "x"}},
	})
	assert.NilError(t, err)
	type refusal struct {
		failure   error
		sizes     []int // the numbers of clients of the first calls
		unrefused string
	}
	tests := map[string]refusal{
		"named": {named.Err(), []int{20, 19, 1}, ReasonFenced},
		"not named": {
			notNow(codes.Internal), slices.Concat([]int{20}, slices.Repeat([]int{1}, 20)), ReasonFenced,
		},
	}
	for _, code := range []codes.Code{
		codes.FailedPrecondition, codes.Unauthenticated, codes.PermissionDenied,
		codes.ResourceExhausted, codes.Unavailable, codes.Aborted, codes.Unimplemented,
	} {
		tests[code.String()] = refusal{notNow(code), []int{20, 20}, ReasonRetrying}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			within(t, func(w *world) {
				w.answer = refuse(test.failure, refused)
				for _, address := range addresses {
					w.must(w.client.Create(t.Context(), networkFence(address, v1alpha1.Fenced, address)))
				}
				w.pass(firstRetry + time.Second)
				var sizes []int
				for _, call := range w.calls[:len(test.sizes)] {
					sizes = append(sizes, strings.Count(call, "/"))
				}
				assert.Check(t, is.DeepEqual(test.sizes, sizes), "numbers of clients")
				for _, address := range addresses {
					reason := test.unrefused
					if address == refused {
						reason = ReasonRetrying
					}
					w.expect(address, reason, "")
				}
			})
		})
	}
}

// Fences come first, and a call contains those with the same parameters and Secret.
func TestCallContainsWhatBelongsTogether(t *testing.T) {
	t.Parallel()
	ofSecret := networkFence("z", v1alpha1.Fenced, "10.0.0.7/32")
	ofSecret.Spec.Secret = &v1alpha1.SecretSpec{Name: "n", Namespace: "n"}
	within(t, func(w *world) {
		w.pass(time.Minute)
		w.expectCalls("fence 10.0.0.1/32,10.0.0.2/32", "fence 10.0.0.3/32",
			"fence 10.0.0.4/32,10.0.0.7/32", "unfence 10.0.0.5/32,10.0.0.6/32")
	}, ofSecret, class("a", manila), class("b", manila, "x", "1"),
		class("c", manila, v1alpha1.NetworkFenceSecretNameParameter, "n",
			v1alpha1.NetworkFenceSecretNamespaceParameter, "n"),
		networkFence("a", v1alpha1.Unfenced, shared), networkFence("b", v1alpha1.Unfenced, lost),
		ofClass("a", "c", "10.0.0.1/32"), ofClass("a", "d", "10.0.0.2/32"),
		ofClass("b", "e", "10.0.0.3/32"), ofClass("c", "f", "10.0.0.4/32"))
}

// A driver of many shares needs several calls. The next one continues at once. After three, the
// status says how far they are, and the end of another fence has a turn.
func TestCallThatTakesTooLongIsContinued(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		left := 1000
		w.answer = func(ctx context.Context, call string) error {
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

// waitsForB returns two NetworkFences, of which a waits for the end of b.
func waitsForB(w *world) {
	w.create(networkFence("b", v1alpha1.Fenced, shared))
	w.create(networkFence("a", v1alpha1.Unfenced, shared, lost))
	w.expect("a", ReasonFencedByAnother, "1 of 2 CIDRs stay fenced, because another NetworkFence "+
		"fences them too, such as b")
	w.expectCalls("fence "+shared, "unfence "+lost)
}

// A fence takes precedence over the end of a fence, however the CIDRs are spelled.
func TestSpellingsOfACIDRAreOneCIDR(t *testing.T) {
	t.Parallel()
	const network, spelled = "11.67.12.0/24", "11.67.12.42/24"
	within(t, func(w *world) {
		w.create(networkFence("b", v1alpha1.Unfenced, spelled, "fd00::7/64"))
		w.create(networkFence("a", v1alpha1.Fenced, spelled, network))
		w.expect("a", ReasonFenced, "NetworkFence b unfences some of them")
		w.expectCalls("unfence "+network+",fd00::/64", "fence "+network)
		w.change("b", func(*v1alpha1.NetworkFenceSpec) {})
		w.expect("b", ReasonFencedByAnother, "1 of 2 CIDRs stay fenced")
		w.expectCalls("unfence fd00::/64")
		w.expectQuiet(time.Minute)
		w.delete(networkFence("a", v1alpha1.Fenced))
		w.pass(moment)
		w.expect("b", ReasonUnfenced, "The fence of the clients has ended")
		w.expectCalls("unfence " + network)
		w.expectQuiet(time.Minute)
	})
}

func TestNetworkFencesOfOtherStorageDoNotMatter(t *testing.T) {
	t.Parallel()
	ofDriver := networkFence("driver", v1alpha1.Fenced, shared)
	ofDriver.Spec.Driver = ceph
	ofCluster := networkFence("cluster", v1alpha1.Fenced, shared)
	ofCluster.Spec.Parameters = map[string]string{clusterParameter: "green"}
	// Nobody knows the driver of a NetworkFence whose class is gone.
	unknown := ofClass("gone", "class", lost)
	end := networkFence("end", v1alpha1.Unfenced, shared, lost)
	end.Spec.Parameters = map[string]string{clusterParameter: "blue"}
	// One that names no cluster is about the storage of each.
	anyCluster := networkFence("any", v1alpha1.Fenced, "10.0.0.7/32")
	kept := networkFence("kept", v1alpha1.Unfenced, "10.0.0.7/32")
	kept.Spec.Parameters = map[string]string{clusterParameter: "green"}
	within(t, func(w *world) {
		w.expect("kept", ReasonFencedByAnother, "such as any")
		w.expect("end", ReasonFencedByAnother, "1 of 2 CIDRs stay fenced, because another NetworkFence "+
			"fences them too, such as class")
		assert.Check(t, slices.Contains(w.calls, "unfence "+shared) && len(w.calls) == 4, "%q", w.calls)
	}, ofDriver, ofCluster, unknown, end, anyCluster, kept)
}

func TestWaitingNetworkFenceDoesNotEndALaterFence(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		waitsForB(w)
		w.leaderless = true
		w.expectQuiet(time.Minute)
		w.leaderless = false
		w.create(networkFence("later", v1alpha1.Fenced, lost))
		w.expect("later", ReasonFenced, "")
		w.expectCalls("fence " + lost)
		w.delete(networkFence("later", v1alpha1.Fenced))
		w.restart()
		w.expectCalls("fence " + shared) // a verification
		w.expectQuiet(time.Minute)

		// A call that fails does not make the controller forget.
		w.answer = refuse(notNow(codes.Unavailable), "unfence")
		w.delete(networkFence("b", v1alpha1.Fenced))
		w.pass(moment)
		w.expect("a", ReasonRetrying, "not now")
		w.answer = nil
		w.must(w.client.Create(t.Context(), networkFence("last", v1alpha1.Fenced, lost)))
		w.restart()
		w.expect("a", ReasonUnfenced, "NetworkFence last fences some of them")
		assert.Check(t, is.Len(w.get("a").Status.Conditions, 1))
		assert.Check(t, !slices.Contains(w.calls, "unfence "+lost), "the calls are %q", w.calls)
	})
}

func TestWaitingNetworkFenceIsQuietWithTheSchemaOfAnotherProgram(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		w.writing = func(written *v1alpha1.NetworkFence) error {
			written.Status.Reason = ""
			return nil
		}
		w.create(networkFence("b", v1alpha1.Fenced, shared))
		w.create(networkFence("a", v1alpha1.Unfenced, shared, lost))
		w.expectCalls("fence "+shared, "unfence "+lost)
		w.expectQuiet(time.Minute)
	})
}

func TestNewSpecUnfencesAllAgain(t *testing.T) {
	t.Parallel()
	within(t, func(w *world) {
		waitsForB(w)
		w.change("a", func(spec *v1alpha1.NetworkFenceSpec) {
			spec.Cidrs = []string{lost, "10.0.0.7/32", shared}
		})
		w.expect("a", ReasonFencedByAnother, "1 of 3 CIDRs")
		w.expectCalls("unfence " + lost + ",10.0.0.7/32")
		w.unfence("b")
		w.expect("b", ReasonUnfenced, "")
		w.pass(moment)
		w.expect("a", ReasonUnfenced, "")
	})
}

func TestAllCIDRsAreRemembered(t *testing.T) {
	t.Parallel()
	// Longer than in the API server, which limits the message.
	const longest = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255/128"
	f, r := networkFence("a", v1alpha1.Unfenced), &Reconciler{
		Clock: clocktesting.NewFakePassiveClock(time.Now()),
	}
	for i := range maxCIDRs {
		f.Spec.Cidrs = append(f.Spec.Cidrs, longest+strconv.Itoa(i))
	}
	r.remember(f, outcome{ended: f.Spec.Cidrs, fenced: metav1.ConditionUnknown})
	assert.Check(t, is.DeepEqual(f.Spec.Cidrs, ended(f)), "CIDRs")
	const limit = 32768 // of a message in the CustomResourceDefinition
	// Later releases read the condition.
	found := meta.FindStatusCondition(f.Status.Conditions, "PartlyUnfenced")
	assert.Check(t, len(found.Message) <= limit, "the message has %d characters", len(found.Message))
	// Somebody may have written another message.
	found.Message = "0 -1 1024 99999999999999999999 x 3"
	assert.Check(t, is.DeepEqual([]string{f.Spec.Cidrs[0], f.Spec.Cidrs[3]}, ended(f)), "CIDRs")
}
