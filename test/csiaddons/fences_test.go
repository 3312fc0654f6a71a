//go:build integration

package csiaddons

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	specfence "github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/fence"
)

// TestNetworkFences fences and unfences clients, with and without a Secret, and such that other
// NetworkFences fence.
func TestNetworkFences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.part("clients", (*world).checkFences)
	w.part("NetworkFences overlap", (*world).checkOverlap)
}

// fenceDriver returns a driver that fences.
func fenceDriver(name string) *fakeDriver {
	const calls = 10
	return &fakeDriver{
		name: name, services: services{nodeService, controllerService},
		fences: []identity.Capability_NetworkFence_Type{
			identity.Capability_NetworkFence_NETWORK_FENCE,
			identity.Capability_NetworkFence_GET_CLIENTS_TO_FENCE,
		},
		fenced:      make(chan *specfence.FenceClusterNetworkRequest, calls),
		unfenced:    make(chan *specfence.UnfenceClusterNetworkRequest, calls),
		fenceErrors: make(chan error, calls),
	}
}

// addFenceClass creates a NetworkFenceClass of the driver manila with a parameter.
func (w *world) addFenceClass(name, key, value string) {
	w.Helper()
	w.create(&v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NetworkFenceClassSpec{
			Provisioner: "manila", Parameters: map[string]string{key: value},
		},
	})
}

func (w *world) checkFences() {
	d := fenceDriver("manila")
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), d)
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: "cloud"},
		Data:       map[string][]byte{"user": []byte("a")},
	})
	w.addFenceClass("shares", v1alpha1.StorageNetworksParameter, "172.16.0.0/16")
	w.addFenceClass("reserved", v1alpha1.ReservedParameterPrefix+"other", "a")
	args := "--driver-namespaces=manila=" + driverNamespace
	stop := w.startController(args)

	// A class without a Secret.
	d.fenceErrors <- status.Error(codes.Unavailable, "the cloud does not answer")
	w.addFence("by-class", v1alpha1.NetworkFenceSpec{
		NetworkFenceClassName: "shares", Cidrs: []string{"10.0.0.1/32"},
	})
	w.awaitFence("by-class", v1alpha1.OperationFailed, fence.ReasonRetrying)
	w.awaitFence("by-class", v1alpha1.OperationSucceeded, fence.ReasonFenced)
	got := <-d.fenced
	if got.GetParameters()[v1alpha1.StorageNetworksParameter] == "" || len(got.GetSecrets()) != 0 ||
		got.GetCidrs()[0].GetCidr() != "10.0.0.1/32" {
		w.Errorf("the driver gets %v", got)
	}

	w.addFence("by-driver", v1alpha1.NetworkFenceSpec{
		Driver: "manila", Cidrs: []string{"10.0.0.2/32"}, Parameters: map[string]string{"a": "b"},
		Secret: &v1alpha1.SecretSpec{Namespace: driverNamespace, Name: "cloud"},
	})
	w.awaitFence("by-driver", v1alpha1.OperationSucceeded, fence.ReasonFenced)
	if got = <-d.fenced; got.GetSecrets()["user"] != "a" || got.GetParameters()["a"] != "b" {
		w.Errorf("the driver gets %v", got)
	}

	w.addFence("bad-cidr", v1alpha1.NetworkFenceSpec{
		NetworkFenceClassName: "shares", Cidrs: []string{"10.0.0.1"},
	})
	w.awaitFence("bad-cidr", v1alpha1.OperationFailed, fence.ReasonInvalidCIDR)
	w.addFence("bad-class", v1alpha1.NetworkFenceSpec{
		NetworkFenceClassName: "reserved", Cidrs: []string{"10.0.0.9/32"},
	})
	w.awaitFence("bad-class", v1alpha1.OperationFailed, fence.ReasonInvalidClass)
	w.must(w.client.Delete(w.Context(), &v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "reserved"},
	}))
	w.checkFenceClients()

	stop()
	stop = w.startController(args)
	w.unfence("by-class")
	w.awaitFence("by-class", v1alpha1.OperationSucceeded, fence.ReasonUnfenced)
	if got := <-d.unfenced; got.GetCidrs()[0].GetCidr() != "10.0.0.1/32" {
		w.Errorf("the driver gets %v", got)
	}
	w.deleteFence("by-driver")
	stop()
	for len(d.fenced) > 0 { // verifications
		if got := (<-d.fenced).GetCidrs(); len(got) != 1 || got[0].GetCidr() != "10.0.0.2/32" {
			w.Errorf("after a restart the driver gets a call to fence %v", got)
		}
	}
	if len(d.unfenced) > 0 {
		w.Errorf("after a deletion the driver gets %d more calls to unfence", len(d.unfenced))
	}
}

// checkFenceClients waits for the clients in the status of the CSIAddonsNode of the driver manila,
// and adds a class that does not name their network.
func (w *world) checkFenceClients() {
	w.Helper()
	w.create(&v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "no-networks"},
		Spec:       v1alpha1.NetworkFenceClassSpec{Provisioner: "manila"},
	})
	found := w.awaitSidecar("manila", func(n *v1alpha1.CSIAddonsNode) bool {
		return len(n.Status.NetworkFenceClientStatus) == 1 &&
			n.Annotations[v1alpha1.NetworkFenceClassNamesAnnotation] == `["no-networks","shares"]`
	})
	if diff := cmp.Diff([]v1alpha1.NetworkFenceClientStatus{{
		NetworkFenceClassName: "shares",
		ClientDetails:         []v1alpha1.ClientDetail{{ID: "worker-1", Cidrs: []string{storageAddress}}},
	}}, found.Status.NetworkFenceClientStatus); diff != "" {
		w.Errorf("clients of the node (-want +got):\n%s", diff)
	}
	w.awaitEvent(found.Namespace, found.Name, storageAddress+" is not an address of the Node")
	w.checkSharedAddress(found)
}

// checkSharedAddress adds a Node with the address of a client. The controller reads the addresses
// again for a new class, and then removes this address from the status. It may not know the new
// Node yet when it reads them for the first of these classes, and kwok may overwrite the address.
func (w *world) checkSharedAddress(sidecar *v1alpha1.CSIAddonsNode) {
	w.Helper()
	w.addNode("worker-2")
	address, _, _ := strings.Cut(storageAddress, "/")
	number := 0
	w.eventually(func(ctx context.Context) (bool, error) {
		node := &corev1.Node{}
		w.must(w.client.Get(ctx, types.NamespacedName{Name: "worker-2"}, node))
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		if err := w.client.Status().Update(ctx, node); err != nil {
			return false, ignoreConflict(err)
		}
		number++
		class := fmt.Sprintf("more-%d", number)
		w.addFenceClass(class, v1alpha1.StorageNetworksParameter, "172.16.0.0/16")
		found := w.awaitSidecar("manila", func(n *v1alpha1.CSIAddonsNode) bool {
			return slices.ContainsFunc(n.Status.NetworkFenceClientStatus,
				func(of v1alpha1.NetworkFenceClientStatus) bool { return of.NetworkFenceClassName == class })
		})
		return !slices.ContainsFunc(found.Status.NetworkFenceClientStatus,
			func(of v1alpha1.NetworkFenceClientStatus) bool {
				return len(of.ClientDetails) != 1 || len(of.ClientDetails[0].Cidrs) > 0
			}), nil
	})
	w.awaitEvent(sidecar.Namespace, sidecar.Name, "Node worker-2 has this address too")
}

func (w *world) addFence(name string, spec v1alpha1.NetworkFenceSpec) {
	w.Helper()
	spec.FenceState = v1alpha1.Fenced
	w.create(&v1alpha1.NetworkFence{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{v1alpha1.NetworkFenceFinalizer}, // of another controller
		},
		Spec: spec,
	})
}

// awaitFence waits for a result.
func (w *world) awaitFence(name string, result v1alpha1.OperationResult, reason string,
) *v1alpha1.NetworkFence {
	w.Helper()
	f := &v1alpha1.NetworkFence{}
	err := wait.PollUntilContextTimeout(w.Context(), 20*time.Millisecond, soon, true,
		func(ctx context.Context) (bool, error) {
			err := w.client.Get(ctx, types.NamespacedName{Name: name}, f)
			return f.Status.Result == result && f.Status.Reason == reason, err
		})
	if err != nil {
		w.Fatalf("NetworkFence %s has the status %+v, want %s, %s: %v", name, f.Status, result, reason,
			err)
	}
	return f
}

// details returns the message of the condition of a NetworkFence.
func details(f *v1alpha1.NetworkFence) string {
	found := meta.FindStatusCondition(f.Status.Conditions, fence.ConditionFenced)
	if found == nil {
		return ""
	}
	return found.Message
}

// deleteFence deletes a NetworkFence, and waits until it is gone.
func (w *world) deleteFence(name string) {
	w.Helper()
	f := &v1alpha1.NetworkFence{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.must(w.client.Delete(w.Context(), f))
	w.awaitGone(f)
}

// checkOverlap ends fences of clients that other NetworkFences fence.
func (w *world) checkOverlap() {
	d := fenceDriver("ceph")
	w.addSidecar(w.addPod(driverNamespace, "ceph", "worker-1"), d)
	args := "--driver-namespaces=ceph=" + driverNamespace
	stop := w.startController(args)
	w.awaitSidecar("ceph", connected)
	add := func(name string, cidrs ...string) {
		w.Helper()
		w.addFence(name, v1alpha1.NetworkFenceSpec{
			Driver: "ceph", Cidrs: cidrs,
			Secret: &v1alpha1.SecretSpec{},
		})
		w.awaitFence(name, v1alpha1.OperationSucceeded, fence.ReasonFenced)
		<-d.fenced
	}

	// An answer that a driver may give while it starts does not end a NetworkFence.
	d.fenceErrors <- status.Error(codes.Unimplemented, "not now")
	add("large", "10.0.0.0/24")
	add("small", "10.0.0.5/32", "10.0.0.6/32")
	add("again", "10.0.0.5/32")

	w.unfence("small")
	waiting := w.awaitFence("small", v1alpha1.OperationSucceeded, fence.ReasonFencedByAnother)
	if text := details(waiting); !strings.Contains(text, "1 of 2 CIDRs stay fenced") ||
		!strings.Contains(text, "such as again") ||
		waiting.Status.Message != v1alpha1.Unfenced.Succeeded() {
		w.Errorf("the status is %+v", waiting.Status)
	}
	d.expectUnfenced(w.T, "10.0.0.6/32")

	// A NetworkFence that waits does not end a later fence, even after a restart.
	add("later", "10.0.0.6/32")
	w.deleteFence("later")
	stop()
	stop = w.startController(args)
	add("last", "10.0.0.7/32") // also reconciles the NetworkFence that waits
	w.awaitFence("small", v1alpha1.OperationSucceeded, fence.ReasonFencedByAnother)

	// The end of the other fence ends both.
	w.unfence("again")
	for _, name := range []string{"again", "small"} {
		done := w.awaitFence(name, v1alpha1.OperationSucceeded, fence.ReasonUnfenced)
		if !strings.Contains(details(done), "NetworkFence large fences some of them") {
			w.Errorf("the status of NetworkFence %s is %+v", name, done.Status)
		}
	}
	d.expectUnfenced(w.T, "10.0.0.5/32", "10.0.0.5/32")
	w.deleteFence("large")
	w.unfence("last")
	w.awaitFence("last", v1alpha1.OperationSucceeded, fence.ReasonUnfenced)
	w.awaitFence("again", v1alpha1.OperationSucceeded, fence.ReasonUnfenced)
	stop()
	d.expectUnfenced(w.T, "10.0.0.7/32")
}

// expectUnfenced compares the CIDRs of all calls to unfence since the last comparison.
func (d *fakeDriver) expectUnfenced(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for len(d.unfenced) > 0 {
		var cidrs []string
		for _, cidr := range (<-d.unfenced).GetCidrs() {
			cidrs = append(cidrs, cidr.GetCidr())
		}
		got = append(got, strings.Join(cidrs, ","))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CIDRs of calls to unfence (-want +got):\n%s", diff)
	}
}

// unfence changes the state of a NetworkFence.
func (w *world) unfence(name string) {
	w.Helper()
	f := w.awaitFence(name, v1alpha1.OperationSucceeded, fence.ReasonFenced)
	changed := f.DeepCopy()
	changed.Spec.FenceState = v1alpha1.Unfenced
	w.must(w.client.Patch(w.Context(), changed, client.MergeFrom(f)))
}
