//go:build integration

package csiaddons

import (
	"strings"
	"testing"

	specfence "github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/fence"
)

// TestNetworkFencesThatOverlap ends fences of clients that other NetworkFences fence.
func TestNetworkFencesThatOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addNode("worker-1")
	const calls = 10
	d := &fakeDriver{
		name: "manila", services: services{controllerService},
		fences: []identity.Capability_NetworkFence_Type{
			identity.Capability_NetworkFence_NETWORK_FENCE,
		},
		fenced:      make(chan *specfence.FenceClusterNetworkRequest, calls),
		unfenced:    make(chan *specfence.UnfenceClusterNetworkRequest, calls),
		fenceErrors: make(chan error, calls),
	}
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), d)
	args := "--driver-namespaces=manila=" + driverNamespace
	stop := w.startController(args)
	w.awaitSidecar("manila", connected)
	add := func(name string, cidrs ...string) {
		t.Helper()
		w.addFence(name, v1alpha1.NetworkFenceSpec{
			Driver: "manila", Cidrs: cidrs,
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
	waiting := w.awaitFence("small", v1alpha1.OperationFailed, fence.ReasonFencedByAnother)
	if !strings.Contains(waiting.Status.Message, "1 of 2 CIDRs stay fenced") ||
		!strings.Contains(waiting.Status.Message, "such as again") {
		t.Errorf("the message is %q", waiting.Status.Message)
	}
	d.expectUnfenced(t, "10.0.0.6/32")

	// A NetworkFence that waits does not end a later fence, even after a restart.
	add("later", "10.0.0.6/32")
	w.deleteFence("later")
	stop()
	stop = w.startController(args)
	add("last", "10.0.0.7/32") // also reconciles the NetworkFence that waits
	w.awaitFence("small", v1alpha1.OperationFailed, fence.ReasonFencedByAnother)

	// The end of the other fence ends both.
	w.unfence("again")
	for _, name := range []string{"again", "small"} {
		done := w.awaitFence(name, v1alpha1.OperationSucceeded, fence.ReasonUnfenced)
		if !strings.Contains(done.Status.Message, "except those that NetworkFence large fences") {
			t.Errorf("the message of NetworkFence %s is %q", name, done.Status.Message)
		}
	}
	d.expectUnfenced(t, "10.0.0.5/32", "10.0.0.5/32")
	w.deleteFence("large")
	w.unfence("last")
	w.awaitFence("last", v1alpha1.OperationSucceeded, fence.ReasonUnfenced)
	w.awaitFence("again", v1alpha1.OperationSucceeded, fence.ReasonUnfenced)
	stop()
	d.expectUnfenced(t, "10.0.0.7/32")
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
