package connection

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// reported returns the CSIAddonsNode of a pod that does not exist, with addresses of a Node.
func reported(pod, node string) *v1alpha1.CSIAddonsNode {
	return &v1alpha1.CSIAddonsNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: pod, UID: types.UID(pod)},
		Spec: v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{
			Name: "manila", NodeID: node, EndPoint: "pod://" + pod + ".csi:9070",
		}},
		Status: v1alpha1.CSIAddonsNodeStatus{
			NetworkFenceClientStatus: []v1alpha1.NetworkFenceClientStatus{{NetworkFenceClassName: "a"}},
		},
	}
}

// valid returns the CSIAddonsNode of the pod of runningPod.
func valid() *v1alpha1.CSIAddonsNode {
	node := reported("new", "worker")
	node.Name = wire.ObjectName("new", "manila")
	node.Annotations = map[string]string{v1alpha1.CertificatePinAnnotation: "sha256:a"}
	node.OwnerReferences = []metav1.OwnerReference{{UID: "pod"}}
	return node
}

func runningPod() *corev1.Pod {
	owner := metav1.OwnerReference{UID: "set", Controller: new(true)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "csi", Name: "new", UID: "pod", OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: corev1.PodSpec{NodeName: "worker"}, Status: corev1.PodStatus{PodIP: "::1"},
	}
}

func worker() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
}

// newReconciler returns a reconciler for pods of two drivers in the namespace csi.
func newReconciler(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *Reconciler {
	t.Helper()
	known := runtime.NewScheme()
	err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known))
	assert.NilError(t, err)
	kube := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.CSIAddonsNode{}).WithInterceptorFuncs(funcs).
		WithIndex(&v1alpha1.CSIAddonsNode{}, indexNode, nodeOf).
		WithIndex(&v1alpha1.CSIAddonsNode{}, indexPod, podOf).Build()
	allowed := Driver{Namespaces: []string{"csi"}}
	return &Reconciler{
		Client: kube, Live: kube, Pool: NewPool(nil, NewMetrics(nil), nil),
		Drivers: Drivers{"manila": allowed, "cinder": allowed},
		Events:  events.NewFakeRecorder(2),
		retries: workqueue.DefaultTypedItemBasedRateLimiter[types.NamespacedName](),
	}
}

// Somebody deletes the pod of a lost Node, and then fences the Node. Whoever may create a
// CSIAddonsNode must not hide the addresses.
func TestAddressesOfALostNodeStayWithoutItsPod(t *testing.T) {
	t.Parallel()
	silent := reported("old", "worker")
	silent.Status.NetworkFenceClientStatus = nil
	forged, foreign := valid(), valid()
	forged.Name = "forged"
	foreign.Name, foreign.Spec.Driver.Name = wire.ObjectName("new", "cinder"), "cinder"
	for name, one := range map[string]struct {
		objects []client.Object
		stays   bool
	}{
		"the Node exists":           {[]client.Object{reported("old", "worker"), worker()}, true},
		"the Node does not exist":   {[]client.Object{reported("old", "worker")}, false},
		"the Node has no addresses": {[]client.Object{silent, worker()}, false},
		"a new pod runs on the Node": {
			[]client.Object{reported("old", "worker"), valid(), runningPod(), worker()}, false,
		},
		"the CSIAddonsNode of a new pod is not valid": {
			[]client.Object{reported("old", "worker"), forged, runningPod(), worker()}, true,
		},
		"a new pod of another driver runs on the Node": {
			[]client.Object{reported("old", "worker"), foreign, runningPod(), worker()}, true,
		},
		"a new pod runs on another Node": {
			[]client.Object{reported("old", "worker"), reported("new", "x"), worker()}, true,
		},
	} {
		r := newReconciler(t, interceptor.Funcs{}, one.objects...)
		key := client.ObjectKey{Namespace: "csi", Name: "old"}
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		assert.Check(t, err == nil && (result.RequeueAfter > 0) == one.stays,
			"if %s, the reconciliation returns %+v, %v", name, result, err)
		var got v1alpha1.CSIAddonsNode
		err = client.IgnoreNotFound(r.Client.Get(t.Context(), key, &got))
		if stays := got.Name != ""; err != nil || stays != one.stays || stays &&
			(got.Status.Reason != ReasonPodGone || len(got.Status.NetworkFenceClientStatus) != 1) {
			t.Errorf("if %s, the CSIAddonsNode stays: %t: %+v, %v", name, stays, got.Status, err)
		}
	}
}

// If the state Connected ends while another reconciliation reads it from an outdated cache and
// connects, nothing else would correct the state.
func TestEndOfConnectedStateIsReconciled(t *testing.T) {
	t.Parallel()
	connected := v1alpha1.CSIAddonsNodeStatus{
		State: v1alpha1.CSIAddonsNodeConnected, Reason: ReasonConnected,
	}
	failed := v1alpha1.CSIAddonsNodeStatus{
		State: v1alpha1.CSIAddonsNodeFailed, Reason: ReasonNotOwned,
	}
	mixed := v1alpha1.CSIAddonsNodeStatus{State: connected.State, Reason: failed.Reason}
	for _, one := range []struct {
		before, after v1alpha1.CSIAddonsNodeStatus
		want          int
	}{
		{connected, failed, 1},
		{connected, mixed, 1}, // a patch contains only what differs from an outdated cache
		{connected, connected, 0},
		{failed, connected, 0},
		{failed, failed, 0},
	} {
		before, after := reported("a", "worker"), reported("a", "worker")
		before.Status, after.Status = one.before, one.after
		q := &requestCounter{}
		(&Reconciler{}).checkAgain(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		if q.count != one.want {
			t.Errorf("after %v becomes %v, there are %d requests, want %d", one.before, one.after, q.count,
				one.want)
		}
	}
}

func TestSidecarsOfControllersAreFirstAfterARestart(t *testing.T) {
	t.Parallel()
	for capability, want := range map[string]int{ControllerService: 1, NodeService: 0} {
		node, q := reported("a", "worker"), &requestCounter{}
		node.Status.Capabilities = []string{capability}
		controllersFirst(t.Context(), event.CreateEvent{Object: node}, q)
		assert.Check(t, q.count == want,
			"for a sidecar with %s there are %d requests, want %d", capability, q.count, want)
	}
}

func TestCSIAddonsNodesBelongToTheirPod(t *testing.T) {
	t.Parallel()
	r := newReconciler(t, interceptor.Funcs{}, valid(), reported("old", "worker"))
	got := Requests(t.Context(), r.Client, &v1alpha1.CSIAddonsNodeList{},
		client.MatchingFields{indexPod: "csi/new"})
	want := []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(valid())}}
	assert.Check(t, is.DeepEqual(want, got), "requests")
}

// requestCounter counts the requests that are added to it.
type requestCounter struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	count int
}

func (c *requestCounter) AddWithOpts(priorityqueue.AddOpts, ...reconcile.Request) { c.count++ }

// The texts of a CSIAddonsNode can be large. An event has at most 1,024 bytes.
func TestMessagesOfProblemsAreLimited(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a", strings.Repeat("a", 1<<20), strings.Repeat("ü", 1<<20)} {
		got := problemf(ReasonNotOwned, "Pod %s", text).Error()
		assert.Check(t, len(got) <= 1024 && utf8.ValidString(got) && strings.HasPrefix(got, "Pod "),
			"the message has %d bytes: %.100q", len(got), got)
	}
}

// A sidecar that answers and drops at once, again and again, must not collect requests for later.
func TestQueueHasOneRequestForEachObject(t *testing.T) {
	t.Parallel()
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	dropped, other := types.NamespacedName{Name: "dropped"}, types.NamespacedName{Name: "other"}
	for _, after := range []time.Duration{time.Millisecond, time.Hour, 0, time.Millisecond} {
		Enqueue(q, dropped, First, after)
	}
	Enqueue(q, other, last, 10*time.Millisecond)
	for _, want := range []types.NamespacedName{dropped, other} {
		got, priority, _ := q.GetWithPriority()
		q.Done(got)
		assert.Check(t, got.NamespacedName == want && (priority > 0) == (want == dropped),
			"got %v with priority %d, want %v; that of an event is 0", got, priority, want)
	}
}
