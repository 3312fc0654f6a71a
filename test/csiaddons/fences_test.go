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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/fence"
)

// TestNetworkFences fences and unfences clients, with and without a Secret.
func TestNetworkFences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addNode("worker-1")
	const calls = 10
	d := &fakeDriver{
		name: "manila", services: services{nodeService, controllerService},
		fences: []identity.Capability_NetworkFence_Type{
			identity.Capability_NetworkFence_NETWORK_FENCE,
			identity.Capability_NetworkFence_GET_CLIENTS_TO_FENCE,
		},
		fenced:      make(chan *specfence.FenceClusterNetworkRequest, calls),
		unfenced:    make(chan *specfence.UnfenceClusterNetworkRequest, calls),
		fenceErrors: make(chan error, calls),
	}
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), d)
	w.create(
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: driverNamespace, Name: "cloud"},
			Data:       map[string][]byte{"user": []byte("a")},
		},
		&v1alpha1.NetworkFenceClass{
			ObjectMeta: metav1.ObjectMeta{Name: "shares"},
			Spec: v1alpha1.NetworkFenceClassSpec{
				Provisioner: "manila",
				Parameters:  map[string]string{v1alpha1.StorageNetworksParameter: "172.16.0.0/16"},
			},
		},
		&v1alpha1.NetworkFenceClass{
			ObjectMeta: metav1.ObjectMeta{Name: "reserved"},
			Spec: v1alpha1.NetworkFenceClassSpec{
				Provisioner: "manila",
				Parameters:  map[string]string{v1alpha1.ReservedParameterPrefix + "other": "a"},
			},
		},
	)
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
		t.Errorf("the driver gets %v", got)
	}

	w.addFence("by-driver", v1alpha1.NetworkFenceSpec{
		Driver: "manila", Cidrs: []string{"10.0.0.2/32"}, Parameters: map[string]string{"a": "b"},
		Secret: &v1alpha1.SecretSpec{Namespace: driverNamespace, Name: "cloud"},
	})
	w.awaitFence("by-driver", v1alpha1.OperationSucceeded, fence.ReasonFenced)
	if got = <-d.fenced; got.GetSecrets()["user"] != "a" || got.GetParameters()["a"] != "b" {
		t.Errorf("the driver gets %v", got)
	}

	w.addFence("bad-cidr", v1alpha1.NetworkFenceSpec{
		NetworkFenceClassName: "shares", Cidrs: []string{"10.0.0.1"},
	})
	w.awaitFence("bad-cidr", v1alpha1.OperationFailed, fence.ReasonInvalidCIDR)
	w.addFence("bad-class", v1alpha1.NetworkFenceSpec{
		NetworkFenceClassName: "reserved", Cidrs: []string{"10.0.0.9/32"},
	})
	w.awaitFence("bad-class", v1alpha1.OperationFailed, fence.ReasonInvalidClass)
	w.must(w.client.Delete(t.Context(), &v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "reserved"},
	}))
	w.checkFenceClients()

	stop()
	stop = w.startController(args)
	w.unfence("by-class")
	w.awaitFence("by-class", v1alpha1.OperationSucceeded, fence.ReasonUnfenced)
	if got := <-d.unfenced; got.GetCidrs()[0].GetCidr() != "10.0.0.1/32" {
		t.Errorf("the driver gets %v", got)
	}
	w.deleteFence("by-driver")
	stop()
	if len(d.fenced) > 0 || len(d.unfenced) > 0 {
		t.Errorf("after a restart and a deletion the driver gets %d more calls to fence and %d to "+
			"unfence", len(d.fenced), len(d.unfenced))
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
// Node yet when it reads them for the first of these classes.
func (w *world) checkSharedAddress(sidecar *v1alpha1.CSIAddonsNode) {
	w.Helper()
	w.addNode("worker-2")
	address, _, _ := strings.Cut(storageAddress, "/")
	w.eventually(func(ctx context.Context) (bool, error) {
		node := &corev1.Node{}
		err := w.client.Get(ctx, types.NamespacedName{Name: "worker-2"}, node)
		if err != nil || len(node.Status.Addresses) == 0 { // kwok will overwrite the addresses
			return false, err
		}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		return w.client.Status().Update(ctx, node) == nil, nil
	})
	number := 0
	w.eventually(func(context.Context) (bool, error) {
		number++
		class := fmt.Sprintf("more-%d", number)
		w.create(&v1alpha1.NetworkFenceClass{
			ObjectMeta: metav1.ObjectMeta{Name: class},
			Spec: v1alpha1.NetworkFenceClassSpec{
				Provisioner: "manila",
				Parameters:  map[string]string{v1alpha1.StorageNetworksParameter: "172.16.0.0/16"},
			},
		})
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

// deleteFence deletes a NetworkFence, and waits until it is gone.
func (w *world) deleteFence(name string) {
	w.Helper()
	f := &v1alpha1.NetworkFence{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.must(w.client.Delete(w.Context(), f))
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(f), f)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// TestReclaimSpaceCronJob waits for the jobs of a ReclaimSpaceCronJob that is due each minute.
func TestReclaimSpaceCronJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addNode("worker-1")
	d := &fakeDriver{
		name: "cinder", services: services{nodeService}, reclaims: reclaims{online},
		onNode: answers(2, 1, nil),
	}
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), d)
	w.addVolume("data", "cinder", "worker-1")
	c := &v1alpha1.ReclaimSpaceCronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "often"},
		Spec: v1alpha1.ReclaimSpaceCronJobSpec{
			Schedule: "* * * * *",
			JobTemplate: v1alpha1.ReclaimSpaceJobTemplateSpec{Spec: v1alpha1.ReclaimSpaceJobSpec{
				Target: v1alpha1.TargetSpec{PersistentVolumeClaim: "data"},
			}},
		},
	}
	w.create(c)
	w.startController("--driver-namespaces=cinder="+driverNamespace, "--cronjob-stagger-window=0")
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(c), c)
		return c.Status.LastSuccessfulTime != nil && c.Status.Active == nil, err
	})
	// A minute may begin at any time, so there may be a job of a later minute.
	var jobs v1alpha1.ReclaimSpaceJobList
	w.must(w.client.List(t.Context(), &jobs))
	minutes := map[string]v1alpha1.ReclaimSpaceJob{}
	for _, job := range jobs.Items {
		minutes[job.Annotations[v1alpha1.ScheduledAtAnnotation]] = job
	}
	want := c.Status.LastScheduleTime.UTC().Format(time.RFC3339)
	job, ok := minutes[want]
	if !ok || len(minutes) != len(jobs.Items) || !metav1.IsControlledBy(&job, c) {
		t.Errorf("the jobs are %+v, want one for each minute, and one for %s", jobs.Items, want)
	}
	w.must(w.client.Delete(t.Context(), c))
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(&job), &job)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}
