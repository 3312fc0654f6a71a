package fence

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	manila, ceph = "manila", "ceph"
	shared, lost = "10.0.0.5/32", "10.0.0.6/32"
	// moment is more than the controller needs to handle a change that waits for no call.
	moment = 2 * time.Second
)

// world is an API server with NetworkFences, the running controller, and its drivers. The time is
// that of a synctest bubble.
type world struct {
	*testing.T

	client client.WithWatch
	events *events.FakeRecorder
	// metrics are those of the present process.
	metrics *prometheus.Registry
	stop    func()
	// notify sends the events of a kind to the running controller.
	notify func(before, after client.Object)
	// writing is called before each write of a status.
	writing func(*v1alpha1.NetworkFence) error
	writes  int

	mu sync.Mutex
	// stored are copies of the objects, by kind and name, because the fake client reads through JSON,
	// which took half of the time.
	stored map[string]client.Object
	calls  []string // such as "fence 10.0.0.5/32"
	busy   map[string]bool
	// answer is what a driver does in a call; nil means nothing.
	answer func(ctx context.Context, call string) error
	// changed is the number of shares that a fence has changed, and leaderless means that no pod of a
	// driver is the leader.
	changed    string
	leaderless bool
	// unanswered is what the controller gets from the API server instead of an answer, and slow the
	// time of each of its requests.
	unanswered error
	slow       time.Duration
}

// within runs a test with a controller and these objects.
func within(t *testing.T, test func(*world), objects ...client.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		known := runtime.NewScheme()
		w := &world{
			T: t, busy: map[string]bool{}, stored: map[string]client.Object{},
			events: events.NewFakeRecorder(1000), notify: func(client.Object, client.Object) {},
		}
		w.must(v1alpha1.AddToScheme(known))
		w.client = fake.NewClientBuilder().WithScheme(known).
			WithStatusSubresource(&v1alpha1.NetworkFence{}).
			WithInterceptorFuncs(w.observe()).Build()
		for _, o := range objects {
			w.must(w.client.Create(t.Context(), o))
		}
		w.start()
		defer func() { w.stop() }()
		test(w)
	})
}

// observe returns functions that report the changes of objects, as the API server does.
func (w *world) observe() interceptor.Funcs {
	report := func(c client.Client, o client.Object, change func() error) error {
		before, after, err := w.store(c, o, change)
		if err != nil {
			return err
		}
		if after != nil && after.GetDeletionTimestamp() != nil {
			after.SetGeneration(after.GetGeneration() + 1) // as the API server, unlike the fake one, does
		}
		w.notify(before, after)
		return nil
	}
	return interceptor.Funcs{
		Get: w.read, List: w.readAll,
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, by ...client.CreateOption,
		) error {
			return report(c, o, func() error { return c.Create(ctx, o, by...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, by ...client.UpdateOption,
		) error {
			return report(c, o, func() error { return c.Update(ctx, o, by...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			by ...client.PatchOption,
		) error {
			return report(c, o, func() error { return c.Patch(ctx, o, patch, by...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, by ...client.DeleteOption,
		) error {
			return report(c, o, func() error { return c.Delete(ctx, o, by...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, resource string, o client.Object,
			options ...client.SubResourceUpdateOption,
		) error {
			w.mu.Lock()
			w.writes++
			writing := w.writing
			w.mu.Unlock()
			if writing != nil {
				if err := writing(o.(*v1alpha1.NetworkFence)); err != nil {
					return err
				}
			}
			return report(c, o, func() error { return c.SubResource(resource).Update(ctx, o, options...) })
		},
	}
}

func storedAs(kind client.Object, name string) string { return fmt.Sprintf("%T %s", kind, name) }

// store changes an object, and returns it before and after that; nil means that it did not exist.
func (w *world) store(c client.Client, o client.Object, change func() error,
) (before, after client.Object, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := storedAs(o, o.GetName())
	before = w.stored[key]
	if err := change(); err != nil {
		return nil, nil, err
	}
	found := o.DeepCopyObject().(client.Object)
	if c.Get(w.Context(), client.ObjectKeyFromObject(o), found) != nil {
		delete(w.stored, key)
		return before, nil, nil
	}
	w.stored[key] = found
	return before, found.DeepCopyObject().(client.Object), nil
}

func (w *world) read(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
	options ...client.GetOption,
) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	found, ok := w.stored[storedAs(o, key.Name)]
	if !ok {
		return c.Get(ctx, key, o, options...)
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
	return nil
}

func (w *world) readAll(_ context.Context, _ client.WithWatch, list client.ObjectList,
	_ ...client.ListOption,
) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	kind := strings.TrimSuffix(fmt.Sprintf("%T", list), "List")
	var found []runtime.Object
	for _, key := range slices.Sorted(maps.Keys(w.stored)) {
		if strings.HasPrefix(key, kind+" ") {
			found = append(found, w.stored[key].DeepCopyObject())
		}
	}
	return meta.SetList(list, found)
}

// informers are fake informers that controllers may use at the same time.
type informers struct {
	*informertest.FakeInformers

	mu sync.Mutex
}

func (i *informers) GetInformer(ctx context.Context, o client.Object, _ ...cache.InformerGetOption,
) (cache.Informer, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	found, err := i.FakeInformerFor(ctx, o)
	return &informer{FakeInformer: found, mu: &i.mu}, err
}

type informer struct {
	*controllertest.FakeInformer

	mu *sync.Mutex
}

func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler,
	options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.FakeInformer.AddEventHandlerWithOptions(handler, options)
}

// start starts a controller, as a new process does.
func (w *world) start() {
	w.Helper()
	known := &informers{FakeInformers: &informertest.FakeInformers{Scheme: w.client.Scheme()}}
	m, err := manager.New(&rest.Config{}, manager.Options{
		Scheme: w.client.Scheme(), Logger: logr.Discard(),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return w.client.RESTMapper(), nil
		},
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) { return known, nil },
		NewClient: func(*rest.Config, client.Options) (client.Client, error) {
			return w.client, nil
		},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	w.must(err)
	w.metrics = prometheus.NewRegistry()
	served := connection.Driver{Namespaces: []string{"drivers"}}
	server := w.server()
	r := &Reconciler{
		Client: server, Live: server, Sidecars: w, Events: w.events, Clock: clock.RealClock{},
		Drivers: connection.Drivers{manila: served, ceph: served},
		Metrics: connection.NewMetrics(w.metrics),
	}
	ctx, cancel := context.WithCancel(w.Context())
	w.must(r.SetUp(m))
	done := make(chan error)
	go func() { done <- m.Start(ctx) }()
	synctest.Wait()
	w.notify = func(before, after client.Object) {
		if kind, _ := known.FakeInformerFor(ctx, cmp.Or(before, after)); before == nil {
			kind.Add(after)
		} else if after == nil {
			kind.Delete(before)
		} else {
			kind.Update(before, after)
		}
	}
	w.stop = func() {
		cancel()
		w.must(<-done)
	}
	var classes v1alpha1.NetworkFenceClassList
	w.must(w.client.List(ctx, &classes))
	for i := range classes.Items {
		w.notify(nil, &classes.Items[i])
	}
	for _, f := range w.list() {
		w.notify(nil, &f)
	}
	w.pass(moment)
}

// server returns the API server as the controller sees it.
func (w *world) server() client.WithWatch {
	wait := func() error {
		w.mu.Lock()
		slow, err := w.slow, w.unanswered
		w.mu.Unlock()
		<-time.After(slow)
		return err
	}
	return interceptor.NewClient(w.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption,
		) error {
			if err := wait(); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, resource string, o client.Object,
			options ...client.SubResourceUpdateOption,
		) error {
			if err := wait(); err != nil {
				return err
			}
			return c.SubResource(resource).Update(ctx, o, options...)
		},
	})
}

// restart ends the process and starts another.
func (w *world) restart() {
	w.Helper()
	w.stop()
	w.start()
}

// sync orders what a test has written before what the controller and the drivers read.
func (w *world) sync() {
	w.mu.Lock()
	defer w.mu.Unlock()
}

func (w *world) pass(duration time.Duration) {
	w.sync()
	<-time.After(duration)
	synctest.Wait()
}

func (w *world) must(err error) {
	w.Helper()
	assert.NilError(w, err)
}

// Leader returns the sidecar of the leader.
func (w *world) Leader(_ context.Context, driver string, _ ...string,
) (*connection.Sidecar, bool, error) {
	if w.sync(); w.leaderless {
		return nil, false, nil
	}
	return &connection.Sidecar{
		Connection: &fakeDriver{world: w, name: driver}, Target: connection.Target{Driver: driver},
	}, true, nil
}

type fakeDriver struct {
	grpc.ClientConnInterface
	*world

	name string
}

func (s *fakeDriver) call(ctx context.Context, state string, request *wire.NetworkFenceRequest,
) error {
	call := state + " " + strings.Join(slices.Sorted(slices.Values(request.GetCidrs())), ",")
	s.mu.Lock()
	assert.Check(s, !s.busy[s.name], "the driver %s gets a second call: %s", s.name, call)
	s.busy[s.name] = true
	s.calls = append(s.calls, call)
	answer := s.answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy[s.name] = false
	}()
	if answer == nil {
		return nil
	}
	return answer(ctx, call)
}

// Invoke implements grpc.ClientConnInterface.
func (s *fakeDriver) Invoke(ctx context.Context, method string, request, _ any,
	options ...grpc.CallOption,
) error {
	state := map[string]string{
		string(wire.FenceClusterNetwork): "fence", string(wire.UnFenceClusterNetwork): "unfence",
	}[method]
	for _, option := range options {
		if trailer, ok := option.(grpc.TrailerCallOption); ok && s.changed != "" && state == "fence" {
			*trailer.TrailerAddr = metadata.Pairs(wire.ChangedSharesTrailer, s.changed)
		}
	}
	return s.call(ctx, state, request.(*wire.NetworkFenceRequest))
}

// networkFence returns a NetworkFence of the driver manila.
func networkFence(name string, state v1alpha1.FenceState, cidrs ...string) *v1alpha1.NetworkFence {
	return &v1alpha1.NetworkFence{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1},
		Spec: v1alpha1.NetworkFenceSpec{
			Driver: manila, FenceState: state, Cidrs: cidrs, Secret: &v1alpha1.SecretSpec{},
		},
	}
}

// ofClass returns a NetworkFence of a class.
func ofClass(class, name string, cidrs ...string) *v1alpha1.NetworkFence {
	f := networkFence(name, v1alpha1.Fenced, cidrs...)
	f.Spec.Driver, f.Spec.Secret, f.Spec.NetworkFenceClassName = "", nil, class
	return f
}

// class returns a NetworkFenceClass with parameters, which are keys and values.
func class(name, driver string, parameters ...string) *v1alpha1.NetworkFenceClass {
	c := &v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NetworkFenceClassSpec{
			Provisioner: driver, Parameters: map[string]string{},
		},
	}
	for pair := range slices.Chunk(parameters, 2) {
		c.Spec.Parameters[pair[0]] = pair[1]
	}
	return c
}

// create creates an object, and gives the controller a moment.
func (w *world) create(object client.Object) {
	w.Helper()
	w.must(w.client.Create(w.Context(), object))
	w.pass(moment)
}

func (w *world) delete(object client.Object) {
	w.Helper()
	w.must(w.client.Delete(w.Context(), object))
	w.pass(moment)
}

func (w *world) get(name string) *v1alpha1.NetworkFence {
	w.Helper()
	found := &v1alpha1.NetworkFence{}
	w.must(w.client.Get(w.Context(), types.NamespacedName{Name: name}, found))
	return found
}

func (w *world) list() []v1alpha1.NetworkFence {
	w.Helper()
	var all v1alpha1.NetworkFenceList
	w.must(w.client.List(w.Context(), &all))
	return all.Items
}

func (w *world) change(name string, change func(*v1alpha1.NetworkFenceSpec)) {
	w.Helper()
	found := w.get(name)
	found.Generation++
	change(&found.Spec)
	w.must(w.client.Update(w.Context(), found))
	w.pass(moment)
}

func (w *world) unfence(name string) {
	w.Helper()
	w.change(name, func(spec *v1alpha1.NetworkFenceSpec) { spec.FenceState = v1alpha1.Unfenced })
}

// expect compares the status of a NetworkFence.
func (w *world) expect(name, reason, message string) {
	w.Helper()
	got := w.get(name).Status
	found := meta.FindStatusCondition(got.Conditions, ConditionFenced)
	assert.Assert(w, found != nil, "NetworkFence %s has no condition", name)
	wanted := map[string]metav1.ConditionStatus{
		ReasonFenced: metav1.ConditionTrue, ReasonUnfenced: metav1.ConditionFalse,
	}
	assert.Check(w, got.Reason == reason && strings.Contains(found.Message, message) &&
		found.Reason == reason && found.Status == cmp.Or(wanted[reason], metav1.ConditionUnknown),
		"NetworkFence %s has the reason %s (condition: %s, %s): %s, want %s: %s", name, got.Reason,
		found.Status, found.Reason, found.Message, reason, message)
	want := map[string]string{
		ReasonFenced:          "fencing operation successful",
		ReasonUnfenced:        "unfencing operation successful",
		ReasonFencedByAnother: "unfencing operation successful",
	}[reason]
	assert.Check(w, (got.Result == v1alpha1.OperationSucceeded) == (want != "") &&
		got.Message == cmp.Or(want, found.Message), "NetworkFence %s has the result %q: %q", name,
		got.Result, got.Message)
}

// expectCalls compares the calls since the last comparison.
func (w *world) expectCalls(want ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Check(w, is.DeepEqual(want, w.calls), "calls")
	w.calls = nil
}

// metric returns the value of a metric of the driver manila, or -1 without one.
func (w *world) metric(name string) float64 {
	families, err := w.metrics.Gather()
	w.must(err)
	for _, family := range families {
		for _, one := range family.GetMetric() {
			if family.GetName() == name && one.GetLabel()[0].GetValue() == manila {
				return one.GetGauge().GetValue() + one.GetCounter().GetValue()
			}
		}
	}
	return -1
}

// sent returns the events since the last call.
func (w *world) sent() (texts []string) {
	for len(w.events.Events) > 0 {
		texts = append(texts, <-w.events.Events)
	}
	return texts
}

// expectQuiet expects that there is no write, event or call for some time.
func (w *world) expectQuiet(duration time.Duration) {
	w.Helper()
	before, _ := w.writes, w.sent()
	w.pass(duration)
	assert.Check(w, is.Len(w.sent(), 0), "events in %v", duration)
	assert.Check(w, is.Equal(w.writes, before), "writes in %v", duration)
	w.expectCalls()
}

// ctxError returns what gRPC returns when a context has ended.
func ctxError(ctx context.Context) error { return status.FromContextError(ctx.Err()).Err() }
