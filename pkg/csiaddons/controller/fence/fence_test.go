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
	// leaderless means that no pod is the leader.
	leaderless bool
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

// Leader returns the sidecar of the leader.
func (s *storage) Leader(context.Context, string, ...string) (*connection.Sidecar, error) {
	if s.leaderless {
		return nil, nil
	}
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

	// writes is the number of writes of a status. The function writing is called before each.
	writes  int
	writing func(*v1alpha1.NetworkFence) error
}

func (f *fixture) store(ctx context.Context, c client.Client, resource string,
	object client.Object, options ...client.SubResourceUpdateOption,
) error {
	f.writes++
	if f.writing != nil {
		if err := f.writing(object.(*v1alpha1.NetworkFence)); err != nil {
			return err
		}
	}
	return c.SubResource(resource).Update(ctx, object, options...)
}

// newFixture returns a fixture with objects.
func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	f, known := &fixture{T: t, storage: &storage{}}, runtime.NewScheme()
	f.must(v1alpha1.AddToScheme(known))
	f.client = fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.NetworkFence{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceUpdate: f.store}).Build()
	f.restart()
	return f
}

// restart replaces the reconciler, as a new process does.
func (f *fixture) restart() {
	f.Helper()
	metrics, err := connection.NewMetrics(prometheus.NewRegistry())
	f.must(err)
	f.Reconciler = &Reconciler{
		Client: f.client, Live: f.client, Sidecars: f.storage, Metrics: metrics,
		Drivers: connection.Drivers{driverName: {Namespaces: []string{"drivers"}}},
		Events:  events.NewFakeRecorder(100), Clock: clocktesting.NewFakePassiveClock(time.Now()),
	}
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// change changes the spec of a NetworkFence.
func (f *fixture) change(name string, change func(*v1alpha1.NetworkFenceSpec)) {
	f.Helper()
	found := &v1alpha1.NetworkFence{}
	f.must(f.client.Get(f.Context(), types.NamespacedName{Name: name}, found))
	found.Generation++
	change(&found.Spec)
	f.must(f.client.Update(f.Context(), found))
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
	if f.storage.result == nil {
		f.must(err)
	}
	found := &v1alpha1.NetworkFence{}
	f.must(client.IgnoreNotFound(f.client.Get(f.Context(), key, found)))
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

func TestNetworkFencesOfOtherStorageDoNotMatter(t *testing.T) {
	t.Parallel()
	ofDriver := networkFence("driver", v1alpha1.Fenced, shared)
	ofDriver.Spec.Driver = "ceph"
	ofCluster := networkFence("cluster", v1alpha1.Fenced, shared)
	ofCluster.Spec.Parameters = map[string]string{clusterParameter: "green"}
	// Nobody knows the driver of a NetworkFence whose class is gone.
	ofClass := networkFence("class", v1alpha1.Fenced, lost)
	ofClass.Spec.Driver, ofClass.Spec.NetworkFenceClassName = "", "gone"
	end := networkFence("end", v1alpha1.Unfenced, shared, lost)
	end.Spec.Parameters = map[string]string{clusterParameter: "blue"}
	f := newFixture(t, ofDriver, ofCluster, ofClass, end)
	f.expect("end", ReasonFencedByAnother, "1 of 2 CIDRs stay fenced, because another NetworkFence "+
		"fences them too, such as class", "unfence "+shared)
}

func TestDeletedNetworkFenceIsNotExecuted(t *testing.T) {
	t.Parallel()
	resource := v1alpha1.GroupVersion().WithResource("networkfences").GroupResource()
	for name, failure := range map[string]error{
		"deleted": apierrors.NewNotFound(resource, "a"),
		"changed": apierrors.NewConflict(resource, "a", nil),
		"cached":  nil,
	} {
		f := newFixture(t, networkFence("a", v1alpha1.Fenced, "10.0.0.5/32"))
		f.writing = func(*v1alpha1.NetworkFence) error { return failure }
		if failure == nil {
			f.Live = newFixture(t).client // the cache still contains it
		}
		if _, result := f.reconcile("a"); result.RequeueAfter == 0 || f.storage.calls != nil {
			t.Errorf("%s before the call: the result is %v after the calls %v", name, result,
				f.storage.calls)
		}
	}
}

func TestStartIsWrittenBeforeEachCall(t *testing.T) {
	t.Parallel()
	started := networkFence("a", v1alpha1.Fenced, lost)
	f := newFixture(t, started)
	// As after a crash during the call: the status does not change.
	f.must(f.start(t.Context(), started, "Pod  changes the access of the clients: Fenced"))
	f.writes = 0
	f.storage.result = func() error {
		if f.writes != 1 {
			t.Errorf("the status was written %d times before the call", f.writes)
		}
		return nil
	}
	f.expect("a", ReasonFenced, "", "fence "+lost)
}

// refuse expects that a NetworkFence ends after enough refusals.
func (f *fixture) refuse(name, call string) {
	f.Helper()
	for range maxRefusals - 1 {
		f.expect(name, ReasonRetrying, "not now", call)
	}
	f.expect(name, ReasonRefused, "not now", call)
	f.expect(name, ReasonRefused, "not now")
}

func TestRefusalIsRepeatedWithinABound(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.InvalidArgument, codes.Unimplemented} {
		f := newFixture(t, networkFence("a", v1alpha1.Fenced, lost),
			networkFence("b", v1alpha1.Fenced, shared))
		f.storage.result = func() error { return status.Error(code, "not now") }
		f.expect("b", ReasonRetrying, "not now", "fence "+shared)
		f.refuse("a", "fence "+lost)
		f.storage.result = nil
		f.expect("b", ReasonFenced, "", "fence "+shared)
	}
}

func TestDriverHasOneCallAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, networkFence("a", v1alpha1.Fenced, "10.0.0.5/32"),
		networkFence("b", v1alpha1.Unfenced, "10.0.0.6/32"))
	f.storage.result = func() error {
		got, result := f.reconcile("b")
		if result.RequeueAfter == 0 || got.Result != "" || got.Reason != ReasonWaiting {
			t.Errorf("during another call the result is %v, and the status %+v", result, got)
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
	f := newFixture(t, networkFence("a", v1alpha1.Fenced, lost))
	f.expect("a", ReasonFenced, "", "fence "+lost)
	f.change("a", func(spec *v1alpha1.NetworkFenceSpec) { spec.FenceState = v1alpha1.Unfenced })
	f.storage.result = func() error {
		var during v1alpha1.NetworkFence
		f.must(f.client.Get(t.Context(), types.NamespacedName{Name: "a"}, &during))
		if got := during.Status; got.Result != "" || got.Reason != ReasonStarted {
			t.Errorf("during the call the status is %+v", got)
		}
		return nil
	}
	f.expect("a", ReasonUnfenced, "", "unfence "+lost)
}

// A fence takes precedence over the end of a fence, however the CIDRs are spelled.
func TestSpellingsOfACIDRAreOneCIDR(t *testing.T) {
	t.Parallel()
	const network, spelled = "11.67.12.0/24", "11.67.12.42/24"
	f := newFixture(t,
		networkFence("a", v1alpha1.Fenced, spelled, network),
		networkFence("b", v1alpha1.Unfenced, spelled, "fd00::7/64"))
	f.expect("a", ReasonFenced, "NetworkFence b unfences some of them", "fence "+network)
	f.expect("b", ReasonFencedByAnother, "1 of 2 CIDRs stay fenced", "unfence fd00::/64")
	f.expect("b", ReasonFencedByAnother, "1 of 2 CIDRs stay fenced") // nothing to do
	f.must(f.client.Delete(t.Context(), networkFence("a", v1alpha1.Fenced)))
	f.expect("b", ReasonUnfenced, "The clients have access again", "unfence "+network)
	f.expect("b", ReasonUnfenced, "") // nothing to do
}
