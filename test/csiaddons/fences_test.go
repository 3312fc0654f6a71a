//go:build integration

package csiaddons

import (
	"context"
	"testing"

	specfence "github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/fence"
)

// TestNetworkFences fences and unfences clients, with and without a Secret.
func TestNetworkFences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := fenceDriver("manila")
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), d)
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: "cloud"},
		Data:       map[string][]byte{"user": []byte("a")},
	})
	w.addFenceClass("shares", v1alpha1.StorageNetworksParameter, "172.16.0.0/16")
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
	assert.Check(w, len(d.unfenced) == 0,
		"after a deletion the driver gets %d more calls to unfence", len(d.unfenced))
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

func (w *world) awaitFence(name string, result v1alpha1.OperationResult, reason string,
) *v1alpha1.NetworkFence {
	w.Helper()
	f := &v1alpha1.NetworkFence{}
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, types.NamespacedName{Name: name}, f)
		return f.Status.Result == result && f.Status.Reason == reason, err
	}, name, result, reason, &f.Status)
	return f
}

// deleteFence deletes a NetworkFence, and waits until it is gone.
func (w *world) deleteFence(name string) {
	w.Helper()
	f := &v1alpha1.NetworkFence{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.must(w.client.Delete(w.Context(), f))
	w.awaitGone(f)
}

// unfence changes the state of a NetworkFence.
func (w *world) unfence(name string) {
	w.Helper()
	f := w.awaitFence(name, v1alpha1.OperationSucceeded, fence.ReasonFenced)
	changed := f.DeepCopy()
	changed.Spec.FenceState = v1alpha1.Unfenced
	w.must(w.client.Patch(w.Context(), changed, client.MergeFrom(f)))
}
