package fence

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

const (
	shared = "10.0.0.5/32"
	lost   = "10.0.0.6/32"
)

// quiet expects that nothing happens while NetworkFence a waits, even if the driver has no leader.
func (f *fixture) quiet() {
	f.Helper()
	recorder, before := events.NewFakeRecorder(100), f.writes
	f.Events, f.storage.leaderless = recorder, true
	if _, result := f.reconcile("a"); result.RequeueAfter != waitInterval || f.writes != before ||
		len(recorder.Events) > 0 {
		f.Errorf("while NetworkFence a waits, it causes %d writes and %d events, and the result %v",
			f.writes-before, len(recorder.Events), result)
	}
	f.storage.leaderless = false
}

func TestWaitingNetworkFenceDoesNotEndALaterFence(t *testing.T) {
	t.Parallel()
	f := newFixture(t,
		networkFence("a", v1alpha1.Unfenced, shared, lost), networkFence("b", v1alpha1.Fenced, shared))
	f.expect("a", ReasonFencedByAnother, "1 of 2 CIDRs", "unfence "+lost)
	f.quiet()

	later := networkFence("later", v1alpha1.Fenced, lost)
	f.must(f.client.Create(t.Context(), later))
	f.expect("later", ReasonFenced, "", "fence "+lost)
	f.quiet()
	f.must(f.client.Delete(t.Context(), later))
	f.restart()
	f.quiet()

	// A call that fails does not make the controller forget.
	f.must(f.client.Delete(t.Context(), networkFence("b", v1alpha1.Fenced)))
	f.storage.result = func() error { return status.Error(codes.Unavailable, "not now") }
	f.expect("a", ReasonRetrying, "not now", "unfence "+shared)
	f.must(f.client.Create(t.Context(), networkFence("last", v1alpha1.Fenced, lost)))
	f.restart()
	f.storage.result = nil
	f.expect("a", ReasonUnfenced, "except those that NetworkFence last fences", "unfence "+shared)
	if status, _ := f.reconcile("a"); len(status.Conditions) != 1 {
		t.Errorf("after the end the conditions are %+v", status.Conditions)
	}
}

func TestWaitingNetworkFenceIsQuietWithTheSchemaOfAnotherProgram(t *testing.T) {
	t.Parallel()
	f := newFixture(t,
		networkFence("a", v1alpha1.Unfenced, shared, lost), networkFence("b", v1alpha1.Fenced, shared))
	f.writing = func(written *v1alpha1.NetworkFence) error {
		written.Status.Reason = ""
		return nil
	}
	f.reconcile("a")
	f.quiet()
	if diff := cmp.Diff([]string{"unfence " + lost}, f.storage.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestNewSpecUnfencesAllAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t,
		networkFence("a", v1alpha1.Unfenced, shared, lost), networkFence("b", v1alpha1.Fenced, shared))
	f.expect("a", ReasonFencedByAnother, "", "unfence "+lost)
	f.change("a", func(spec *v1alpha1.NetworkFenceSpec) {
		spec.Cidrs = []string{lost, "10.0.0.7/32", shared}
	})
	f.expect("a", ReasonFencedByAnother, "1 of 3 CIDRs", "unfence "+lost+",10.0.0.7/32")
	f.expect("a", ReasonFencedByAnother, "")
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
	if diff := cmp.Diff(f.Spec.Cidrs, ended(f)); diff != "" {
		t.Errorf("CIDRs (-want +got):\n%s", diff)
	}
	const limit = 32768 // of a message in the CustomResourceDefinition
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionPartlyUnfenced)
	if len(found.Message) > limit {
		t.Errorf("the message has %d characters", len(found.Message))
	}
	// Somebody may have written another message.
	found.Message = "0 -1 1024 99999999999999999999 x 3"
	if diff := cmp.Diff([]string{f.Spec.Cidrs[0], f.Spec.Cidrs[3]}, ended(f)); diff != "" {
		t.Errorf("CIDRs (-want +got):\n%s", diff)
	}
}

func TestOldCacheCausesNoCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t, networkFence("a", v1alpha1.Unfenced, lost))
	f.Client = interceptor.NewClient(f.client.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, found client.Object,
			_ ...client.GetOption,
		) error {
			networkFence("a", v1alpha1.Unfenced, lost).DeepCopyInto(found.(*v1alpha1.NetworkFence))
			return nil
		},
	})
	f.reconcile("a")
	_, result := f.reconcile("a")
	if want := []string{"unfence " + lost}; !slices.Equal(f.storage.calls, want) ||
		result.RequeueAfter == 0 {
		t.Errorf("the result is %v after the calls %v, want %v", result, f.storage.calls, want)
	}
}

func TestNewClassEndsARefusal(t *testing.T) {
	t.Parallel()
	ofClass := networkFence("a", v1alpha1.Fenced, lost)
	ofClass.Spec.NetworkFenceClassName, ofClass.Spec.Driver = "shares", ""
	class := func(created time.Time) *v1alpha1.NetworkFenceClass {
		return &v1alpha1.NetworkFenceClass{
			ObjectMeta: metav1.ObjectMeta{Name: "shares", CreationTimestamp: metav1.NewTime(created)},
			Spec:       v1alpha1.NetworkFenceClassSpec{Provisioner: driverName},
		}
	}
	start := time.Now()
	f := newFixture(t, ofClass, class(start.Add(-time.Hour)))
	f.storage.result = func() error { return status.Error(codes.InvalidArgument, "not now") }
	f.refuse("a", "fence "+lost)
	f.must(f.client.Delete(t.Context(), class(start)))
	f.expect("a", ReasonRefused, "")
	f.must(f.client.Create(t.Context(), class(start.Add(time.Minute))))
	f.expect("a", ReasonRetrying, "not now", "fence "+lost) // as after the first refusal
	f.storage.result = nil
	f.expect("a", ReasonFenced, "", "fence "+lost)
}
