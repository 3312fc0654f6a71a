package fence

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const driverName = "manila"

// storage is a driver that records the calls, such as "fence 10.0.0.5/32".
type storage struct {
	wire.NetworkFenceClient

	calls []string
	// result is called before a call returns.
	result func() error
	// changed is the number of shares that a fence has changed.
	changed string
}

func (s *storage) call(name string, request *wire.NetworkFenceRequest,
) (*wire.NetworkFenceResponse, error) {
	s.calls = append(s.calls, name+" "+strings.Join(request.GetCidrs(), ","))
	if s.result != nil {
		return &wire.NetworkFenceResponse{}, s.result()
	}
	return &wire.NetworkFenceResponse{}, nil
}

func (s *storage) FenceClusterNetwork(_ context.Context, request *wire.NetworkFenceRequest,
	options ...grpc.CallOption,
) (*wire.NetworkFenceResponse, error) {
	for _, option := range options {
		if trailer, ok := option.(grpc.TrailerCallOption); ok && s.changed != "" {
			*trailer.TrailerAddr = metadata.Pairs(wire.ChangedSharesTrailer, s.changed)
		}
	}
	return s.call("fence", request)
}

func (s *storage) UnFenceClusterNetwork(_ context.Context, request *wire.NetworkFenceRequest,
	_ ...grpc.CallOption,
) (*wire.NetworkFenceResponse, error) {
	return s.call("unfence", request)
}

// Leader returns a sidecar of the driver.
func (s *storage) Leader(context.Context, string, ...string) (*connection.Sidecar, error) {
	return &connection.Sidecar{
		NetworkFence: s, Target: connection.Target{Driver: driverName},
	}, nil
}

// fixture is an API server with NetworkFences.
type fixture struct {
	*testing.T

	client  client.Client
	storage *storage
	*Reconciler
}

// newFixture returns a fixture. The functions replace those of the API server.
func newFixture(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *fixture {
	t.Helper()
	known := runtime.NewScheme()
	recorded, err := connection.NewMetrics(prometheus.NewRegistry())
	if err == nil {
		err = v1alpha1.AddToScheme(known)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, storage: &storage{}}
	f.client = fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.NetworkFence{}).WithInterceptorFuncs(funcs).Build()
	f.Reconciler = &Reconciler{
		Client: f.client, Live: f.client, Sidecars: f.storage, Metrics: recorded,
		Drivers: connection.Drivers{driverName: {Namespaces: []string{"drivers"}}},
		Events:  events.NewFakeRecorder(100), Clock: clocktesting.NewFakePassiveClock(time.Now()),
	}
	return f
}

// networkFence returns a NetworkFence of the driver.
func networkFence(name string, state v1alpha1.FenceState, cidrs ...string) *v1alpha1.NetworkFence {
	return &v1alpha1.NetworkFence{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Spec: v1alpha1.NetworkFenceSpec{
			Driver: driverName, FenceState: state, Cidrs: cidrs, Secret: &v1alpha1.SecretSpec{},
		},
	}
}

// reconcile reconciles a NetworkFence, and returns its status if it exists.
func (f *fixture) reconcile(name string) (v1alpha1.NetworkFenceStatus, reconcile.Result) {
	f.Helper()
	key := types.NamespacedName{Name: name}
	result, err := f.Reconcile(f.Context(), reconcile.Request{NamespacedName: key})
	if err != nil && f.storage.result == nil {
		f.Fatal(err)
	}
	found := &v1alpha1.NetworkFence{}
	if err := f.client.Get(f.Context(), key, found); err != nil && !apierrors.IsNotFound(err) {
		f.Fatal(err)
	}
	return found.Status, result
}

// expect compares a status and the calls since the last comparison.
func (f *fixture) expect(name, reason, message string, calls ...string) {
	f.Helper()
	got, result := f.reconcile(name)
	if waits := got.Reason == ReasonFencedByAnother; waits != (result.RequeueAfter == waitInterval) {
		f.Errorf("NetworkFence %s has the reason %s, and is reconciled again after %v", name, got.Reason,
			result.RequeueAfter)
	}
	text := meta.FindStatusCondition(got.Conditions, ConditionFenced).Message
	if got.Reason != reason || !strings.Contains(text, message) {
		f.Errorf("NetworkFence %s has the reason %s: %s, want %s: %s", name, got.Reason, text, reason,
			message)
	}
	wanted := map[string]string{
		ReasonFenced:          "fencing operation successful",
		ReasonUnfenced:        "unfencing operation successful",
		ReasonFencedByAnother: "unfencing operation successful",
	}[reason]
	if succeeded := got.Result == v1alpha1.OperationSucceeded; succeeded != (wanted != "") ||
		succeeded && got.Message != wanted || !succeeded && got.Message != text {
		f.Errorf("NetworkFence %s has the result %q with the message %q", name, got.Result, got.Message)
	}
	if diff := cmp.Diff(calls, slices.Clone(f.storage.calls)); diff != "" {
		f.Errorf("calls for NetworkFence %s (-want +got):\n%s", name, diff)
	}
	f.storage.calls = nil
}

func TestFenceTakesPrecedenceOverTheEndOfAFence(t *testing.T) {
	t.Parallel()
	f := newFixture(t, interceptor.Funcs{},
		networkFence("a", v1alpha1.Fenced, "10.0.0.5/32"),
		networkFence("b", v1alpha1.Unfenced, "10.0.0.5/32", "10.0.0.6/32"))
	f.expect("a", ReasonFenced, "NetworkFence b unfences some of them", "fence 10.0.0.5/32")
	f.expect("b", ReasonFencedByAnother, "1 of 2 CIDRs stay fenced", "unfence 10.0.0.6/32")
	waiting := &v1alpha1.NetworkFence{}
	if err := f.client.Get(t.Context(), types.NamespacedName{Name: "b"}, waiting); err != nil {
		t.Fatal(err)
	}
	waiting.Status.Reason = "" // as with the CustomResourceDefinition of another program
	if !waits(waiting) {
		t.Error("the end of the other NetworkFence does not reconcile the one that waits for it")
	}
	f.expect("b", ReasonFencedByAnother, "1 of 2 CIDRs stay fenced") // nothing to do
	if err := f.client.Delete(t.Context(), networkFence("a", v1alpha1.Fenced)); err != nil {
		t.Fatal(err)
	}
	f.expect("b", ReasonUnfenced, "", "unfence 10.0.0.5/32")
	f.expect("b", ReasonUnfenced, "") // nothing to do
}

func TestClientsOfALargerFenceStayFenced(t *testing.T) {
	t.Parallel()
	f := newFixture(t, interceptor.Funcs{},
		networkFence("large", v1alpha1.Fenced, "10.0.0.0/24"),
		networkFence("small", v1alpha1.Unfenced, "10.0.0.5/32"))
	f.expect("small", ReasonUnfenced, "except those that NetworkFence large fences",
		"unfence 10.0.0.5/32")
	f.expect("large", ReasonFenced, "The clients have no access", "fence 10.0.0.0/24")
}

func TestNetworkFencesOfOtherStorageDoNotMatter(t *testing.T) {
	t.Parallel()
	ofDriver := networkFence("driver", v1alpha1.Fenced, "10.0.0.5/32")
	ofDriver.Spec.Driver = "ceph"
	ofCluster := networkFence("cluster", v1alpha1.Fenced, "10.0.0.5/32")
	ofCluster.Spec.Parameters = map[string]string{clusterParameter: "green"}
	ended := networkFence("end", v1alpha1.Unfenced, "10.0.0.5/32")
	ended.Spec.Parameters = map[string]string{clusterParameter: "blue"}
	f := newFixture(t, interceptor.Funcs{}, ofDriver, ofCluster, ended)
	f.expect("end", ReasonUnfenced, "The clients have access again", "unfence 10.0.0.5/32")

	// Nobody knows the driver of a NetworkFence whose class is gone.
	ofClass := networkFence("class", v1alpha1.Fenced, "10.0.0.6/32")
	ofClass.Spec.Driver, ofClass.Spec.NetworkFenceClassName = "", "gone"
	f = newFixture(t, interceptor.Funcs{}, ofClass,
		networkFence("end", v1alpha1.Unfenced, "10.0.0.6/32"))
	f.expect("end", ReasonFencedByAnother, "such as class")
}

func TestDeletedNetworkFenceIsNotExecuted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, interceptor.Funcs{}, networkFence("a", v1alpha1.Fenced, "10.0.0.5/32"))
	f.Live = newFixture(t, interceptor.Funcs{}).client // the cache still contains it
	if _, result := f.reconcile("a"); result.RequeueAfter == 0 || f.storage.calls != nil {
		t.Errorf("the result is %v after the calls %v", result, f.storage.calls)
	}
	for name, failure := range map[string]error{
		"deleted": apierrors.NewNotFound(v1alpha1.GroupVersion().WithResource("networkfences").
			GroupResource(), "a"),
		"changed": apierrors.NewConflict(v1alpha1.GroupVersion().WithResource("networkfences").
			GroupResource(), "a", nil),
	} {
		late := interceptor.Funcs{SubResourceUpdate: func(context.Context, client.Client, string,
			client.Object, ...client.SubResourceUpdateOption,
		) error {
			return failure
		}}
		f := newFixture(t, late, networkFence("a", v1alpha1.Fenced, "10.0.0.5/32"))
		if _, result := f.reconcile("a"); result.RequeueAfter == 0 || f.storage.calls != nil {
			t.Errorf("%s before the call: the result is %v after the calls %v", name, result,
				f.storage.calls)
		}
	}
}

func TestStartIsWrittenBeforeEachCall(t *testing.T) {
	t.Parallel()
	writes := 0
	counted := interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client,
		resource string, object client.Object, options ...client.SubResourceUpdateOption,
	) error {
		writes++
		return c.SubResource(resource).Update(ctx, object, options...)
	}}
	started := networkFence("a", v1alpha1.Fenced, "10.0.0.5/32")
	f := newFixture(t, counted, started)
	// As after a crash during the call: the status does not change.
	const text = "Pod  changes the access of the clients: Fenced"
	if err := f.start(t.Context(), started, text); err != nil {
		t.Fatal(err)
	}
	writes = 0
	f.storage.result = func() error {
		if writes != 1 {
			t.Errorf("the status was written %d times before the call", writes)
		}
		return nil
	}
	f.expect("a", ReasonFenced, "", "fence 10.0.0.5/32")
}

func TestRefusalIsRepeatedWithinABound(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.InvalidArgument, codes.Unimplemented} {
		f := newFixture(t, interceptor.Funcs{}, networkFence("a", v1alpha1.Fenced, "10.0.0.5/32"))
		f.storage.result = func() error { return status.Error(code, "not now") }
		for range maxRefusals - 1 {
			f.expect("a", ReasonRetrying, "not now", "fence 10.0.0.5/32")
		}
		f.expect("a", ReasonRefused, "not now", "fence 10.0.0.5/32")
		f.expect("a", ReasonRefused, "not now")

		f = newFixture(t, interceptor.Funcs{}, networkFence("a", v1alpha1.Fenced, "10.0.0.5/32"))
		f.storage.result = func() error { return status.Error(code, "not now") }
		f.expect("a", ReasonRetrying, "not now", "fence 10.0.0.5/32")
		f.storage.result = nil
		f.expect("a", ReasonFenced, "", "fence 10.0.0.5/32")
	}
}

func TestDriverHasOneCallAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, interceptor.Funcs{}, networkFence("a", v1alpha1.Fenced, "10.0.0.5/32"),
		networkFence("b", v1alpha1.Unfenced, "10.0.0.6/32"))
	f.storage.result = func() error {
		got, result := f.reconcile("b")
		if result.RequeueAfter == 0 || got.Result != "" || got.Reason != ReasonWaiting {
			t.Errorf("during the call of another NetworkFence the result is %v, and the status %+v", result,
				got)
		}
		return nil
	}
	f.expect("a", ReasonFenced, "", "fence 10.0.0.5/32")
	f.storage.result = nil
	f.expect("b", ReasonUnfenced, "", "unfence 10.0.0.6/32")
}

// Ramen reads only status.result. So the result of a fence must not be there when its end starts.
func TestResultOfAnEarlierSpecDoesNotStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, interceptor.Funcs{}, networkFence("a", v1alpha1.Fenced, lost))
	f.expect("a", ReasonFenced, "", "fence "+lost)
	changed := &v1alpha1.NetworkFence{}
	key := types.NamespacedName{Name: "a"}
	f.must(f.client.Get(t.Context(), key, changed))
	changed.Generation++
	changed.Spec.FenceState = v1alpha1.Unfenced
	f.must(f.client.Update(t.Context(), changed))
	f.storage.result = func() error {
		f.must(f.client.Get(t.Context(), key, changed))
		if got := changed.Status; got.Result != "" || got.Reason != ReasonStarted {
			t.Errorf("during the call the status is %+v", got)
		}
		return nil
	}
	f.expect("a", ReasonUnfenced, "", "unfence "+lost)
}

func TestSpellingsOfACIDRAreOneCIDR(t *testing.T) {
	t.Parallel()
	const network, spelled = "11.67.12.0/24", "11.67.12.42/24"
	f := newFixture(t, interceptor.Funcs{},
		networkFence("a", v1alpha1.Fenced, spelled, network),
		networkFence("b", v1alpha1.Unfenced, spelled, "fd00::7/64"))
	f.expect("a", ReasonFenced, "NetworkFence b unfences some of them", "fence "+network)
	f.expect("b", ReasonFencedByAnother, "1 of 2 CIDRs", "unfence fd00::/64")
	f.must(f.client.Delete(t.Context(), networkFence("a", v1alpha1.Fenced)))
	f.expect("b", ReasonUnfenced, "", "unfence "+network)

	f = newFixture(t, interceptor.Funcs{}, networkFence("a", v1alpha1.Fenced, "11.67.12.42"))
	f.expect("a", ReasonInvalidCIDR, `"11.67.12.42", which is no CIDR`)
}
