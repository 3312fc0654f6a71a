package connection

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// site is a pod on a Node, its CSIAddonsNode, and another CSIAddonsNode that may not exist.
type site struct {
	pod         *corev1.Pod
	worker      *corev1.Node
	node, other *v1alpha1.CSIAddonsNode
	drivers     Drivers
}

// trust changes what the controller accepts from the driver.
func (s *site) trust(security Security) {
	s.drivers["manila"] = Driver{Namespaces: []string{"csi"}, Security: security}
}

// Whoever may create a CSIAddonsNode chooses its content.
func TestImpostorsAreNotConnected(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		change func(*site)
		want   string // the reason, empty if the controller connects
	}{
		"the sidecar":       {func(*site) {}, ""},
		"another driver":    {func(s *site) { s.node.Spec.Driver.Name = "x" }, "DriverNotAllowed"},
		"another namespace": {func(s *site) { s.node.Namespace = "x" }, "DriverNotAllowed"},
		"no endpoint":       {func(s *site) { s.node.Spec.Driver.EndPoint = "::1" }, "InvalidEndpoint"},
		"a pod elsewhere": {
			func(s *site) { s.node.Spec.Driver.EndPoint = "pod://new.x:9070" }, "InvalidEndpoint",
		},
		"no pod": {func(s *site) { s.pod.Name = "x" }, "PodGone"},
		"a pod that ran": {
			func(s *site) { s.pod.Status.Phase = corev1.PodFailed }, "PodGone",
		},
		"a pod of a job": {
			func(s *site) { s.pod.Status.Phase = corev1.PodSucceeded }, "PodGone",
		},
		"a pod of a Node that is gone": {func(s *site) { s.worker.Name = "x" }, "PodGone"},
		"a pod without an address":     {func(s *site) { s.pod.Status.PodIP = "" }, "PodNotReady"},
		"a pod without a Node":         {func(s *site) { s.pod.Spec.NodeName = "" }, ""},
		"another owner": {
			func(s *site) { s.node.OwnerReferences[0].UID = "x" }, "NotOwnedByPod",
		},
		"the owner of the pod": {
			func(s *site) { s.node.OwnerReferences[0].UID = "set" }, "NotOwnedByPod",
		},
		"no pin":       {func(s *site) { s.node.Annotations = nil }, "NoCertificatePin"},
		"another name": {func(s *site) { s.node.Name = "x" }, "WrongName"},
		"another Node": {func(s *site) { s.node.Spec.Driver.NodeID = "x" }, "WrongNode"},
		"without verification, any name": {func(s *site) {
			s.trust(Unverified)
			s.node.Name, s.node.Annotations, s.node.OwnerReferences[0].UID = "x", nil, "set"
		}, ""},
		"without verification, another owner": {func(s *site) {
			s.trust(Unverified)
			s.node.OwnerReferences[0].UID = "x"
		}, "NotOwnedByPod"},
		"a duplicate": {func(s *site) {
			s.trust(Plaintext)
			s.node.CreationTimestamp.Time = s.node.CreationTimestamp.Add(time.Second)
		}, "DuplicateOfPod"},
		"a duplicate of the same time": {func(s *site) {
			s.trust(Plaintext)
			s.other.Name = "a"
		}, "DuplicateOfPod"},
		"the first of two": {func(s *site) {
			s.trust(Plaintext)
			s.other.CreationTimestamp.Time = s.node.CreationTimestamp.Add(time.Second)
		}, ""},
		"one of two drivers": {func(s *site) {
			s.trust(Plaintext)
			s.other.Name, s.other.Spec.Driver.Name = "a", "x"
		}, ""},
		"the successor of one that is deleted": {func(s *site) {
			s.trust(Plaintext)
			s.other.Name, s.other.DeletionTimestamp = "a", &s.other.CreationTimestamp
			s.other.Finalizers = []string{"x/y"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{drivers: Drivers{}, pod: runningPod(), worker: worker()}
			s.trust(Pinned)
			s.node = valid()
			s.node.CreationTimestamp = metav1.Unix(1, 0)
			s.other = s.node.DeepCopy()
			s.other.Name = "z"
			one.change(s)
			r := newReconciler(t, interceptor.Funcs{}, s.pod, s.worker, s.node, s.other)
			r.Drivers = s.drivers
			got, err := r.target(t.Context(), s.node)
			wrong := &problem{}
			if errors.As(err, &wrong); wrong.reason != one.want || err != nil && one.want == "" {
				t.Errorf("got %q, %v, want %q", wrong.reason, err, one.want)
			}
			want := Target{
				Driver: "manila", Node: "worker", Pod: client.ObjectKeyFromObject(s.pod), PodUID: "pod",
				Address: "[::1]:9070", Security: s.drivers["manila"].Security,
			}
			if want.Security == Pinned {
				want.Pin = "sha256:a"
			}
			if diff := cmp.Diff(want, got); err == nil && diff != "" {
				t.Errorf("target (-want +got):\n%s", diff)
			}
		})
	}
}

// An API server that does not answer must not cost the addresses of a lost Node.
func TestErrorsKeepTheCSIAddonsNode(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	reading := func(kind client.Object) interceptor.Funcs {
		return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
			o client.Object, opts ...client.GetOption,
		) error {
			if reflect.TypeOf(o) == reflect.TypeOf(kind) {
				return failed
			}
			return c.Get(ctx, key, o, opts...)
		}}
	}
	for name, fails := range map[string]interceptor.Funcs{
		"reading a pod": reading(&corev1.Pod{}), "reading a Node": reading(&corev1.Node{}),
		"listing": {List: func(context.Context, client.WithWatch, client.ObjectList,
			...client.ListOption,
		) error {
			return failed
		}},
	} {
		node := reported("old", "worker")
		r := newReconciler(t, fails, node, worker())
		key := client.ObjectKeyFromObject(node)
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); !errors.Is(err,
			failed) {
			t.Errorf("if %s fails, the reconciliation returns %v", name, err)
		}
		if err := r.Client.Get(t.Context(), key, &v1alpha1.CSIAddonsNode{}); err != nil {
			t.Errorf("if %s fails, the CSIAddonsNode does not stay: %v", name, err)
		}
	}
}
