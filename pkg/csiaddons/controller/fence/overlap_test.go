package fence

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

func clientKey(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

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
		w.pass(waitInterval)
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
	within(t, func(w *world) {
		w.expect("end", ReasonFencedByAnother, "1 of 2 CIDRs stay fenced, because another NetworkFence "+
			"fences them too, such as class")
		if calls := w.calls; !slices.Contains(calls, "unfence "+shared) || len(calls) != 3 {
			t.Errorf("the calls are %q", calls)
		}
	}, ofDriver, ofCluster, unknown, end)
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
		w.answer = refuse(codes.Unavailable, "unfence")
		w.delete(networkFence("b", v1alpha1.Fenced))
		w.pass(waitInterval)
		w.expect("a", ReasonRetrying, "not now")
		w.answer = nil
		w.must(w.client.Create(t.Context(), networkFence("last", v1alpha1.Fenced, lost)))
		w.restart()
		w.expect("a", ReasonUnfenced, "NetworkFence last fences some of them")
		if conditions := w.get("a").Status.Conditions; len(conditions) != 1 {
			t.Errorf("after the end the conditions are %+v", conditions)
		}
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
		w.pass(waitInterval)
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
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionPartlyUnfenced)
	assert.Check(t, len(found.Message) <= limit, "the message has %d characters", len(found.Message))
	// Somebody may have written another message.
	found.Message = "0 -1 1024 99999999999999999999 x 3"
	assert.Check(t, is.DeepEqual([]string{f.Spec.Cidrs[0], f.Spec.Cidrs[3]}, ended(f)), "CIDRs")
}
