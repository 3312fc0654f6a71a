package sidecar

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

func heldBy(pod string) *coordinationv1.Lease {
	now := metav1.NewMicroTime(time.Now())
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: wire.LeaseName(driverName)},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &pod, LeaseDurationSeconds: ptr.To(int32(3600)),
			AcquireTime: &now, RenewTime: &now,
		},
	}
}

// reclaim calls the controller service, and returns the error.
func (f *fixture) reclaim(ctx context.Context) error {
	connection := f.connectPinned()
	defer connection.Close()
	_, err := wire.NewReclaimSpaceClient(connection).
		ControllerReclaimSpace(ctx, &wire.ReclaimSpaceRequest{PvName: "data"})
	return err
}

func TestPodThatIsNotTheLeaderNamesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, heldBy("pod-b"), persistentVolume(), cloudSecret())
	f.run()
	eventually(t, "the sidecar names the leader", func(context.Context) bool {
		err := f.reclaim(f.with(controllerToken))
		if status.Code(err) != codes.FailedPrecondition {
			t.Fatalf("the call returns %v", err)
		}
		return strings.Contains(err.Error(), `call the pod "pod-b"`)
	})
	request := &wire.NetworkFenceRequest{Cidrs: []string{"10.0.0.1/32"}}
	client := wire.NewNetworkFenceClient(f.connectPinned())
	if _, err := client.FenceClusterNetwork(f.with(controllerToken), request); status.Code(err) !=
		codes.FailedPrecondition {
		t.Errorf("fencing returns %v", err)
	}
	if _, err := client.UnFenceClusterNetwork(f.with(controllerToken), request); status.Code(err) !=
		codes.FailedPrecondition {
		t.Errorf("unfencing returns %v", err)
	}
	// What belongs to the node needs no leader.
	_, err := wire.NewReclaimSpaceClient(f.connectPinned()).
		NodeReclaimSpace(f.with(controllerToken), &wire.ReclaimSpaceRequest{PvName: "data"})
	if err != nil {
		t.Errorf("an operation of the node returns %v", err)
	}
}

func TestNodeOperationsNeedTheNodeService(t *testing.T) {
	t.Parallel()
	f := newFixture(t, persistentVolume(), cloudSecret())
	f.driver.ControllerOnly = true
	f.run()
	_, err := wire.NewReclaimSpaceClient(f.connectPinned()).
		NodeReclaimSpace(f.with(controllerToken), &wire.ReclaimSpaceRequest{PvName: "data"})
	if status.Code(err) != codes.FailedPrecondition || f.driver.node != nil {
		t.Errorf("the call returns %v; the driver received %v", err, f.driver.node)
	}
}

func TestDriverWithoutControllerServiceTakesNoPartInElections(t *testing.T) {
	t.Parallel()
	f := newFixture(t, persistentVolume())
	f.driver.NodeOnly = true
	f.run()
	if err := f.reclaim(f.with(controllerToken)); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the call returns %v, want %v", err, codes.FailedPrecondition)
	}
	if n := f.reads("leases"); n > 0 {
		t.Errorf("the sidecar has read a Lease %d times", n)
	}
}

// awaitLeader waits until the sidecar is the leader.
func (f *fixture) awaitLeader() {
	f.Helper()
	eventually(f.T, "the pod holds the Lease", func(ctx context.Context) bool {
		lease, err := f.kube.CoordinationV1().Leases("csi").
			Get(ctx, wire.LeaseName(driverName), metav1.GetOptions{})
		return err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == "pod-a"
	})
}

// awaitTerm waits until the sidecar executes operations of the leader. Its term begins a moment
// after the Lease names its pod.
func (f *fixture) awaitTerm() {
	f.Helper()
	client := wire.NewNetworkFenceClient(f.connectPinned())
	eventually(f.T, "the term of the pod begins", func(context.Context) bool {
		_, err := client.FenceClusterNetwork(f.with(controllerToken), &wire.NetworkFenceRequest{})
		return status.Code(err) == codes.InvalidArgument
	})
}

func TestLostLeaseCancelsOperations(t *testing.T) {
	t.Parallel()
	f := newFixture(t, persistentVolume(), cloudSecret())
	f.driver.block = make(chan struct{})
	var stolen atomic.Bool
	f.kube.PrependReactor("update", "leases",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			if !stolen.Load() {
				return false, nil, nil
			}
			return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "", nil)
		})
	f.run("--leader-election-lease-duration=6s", "--leader-election-renew-deadline=5s",
		"--leader-election-retry-period=200ms")
	f.awaitLeader()
	ended := f.startOperation()
	stolen.Store(true)
	select {
	case err := <-ended:
		if status.Code(err) != codes.Aborted {
			t.Errorf("the operation ended with %v, want %v", err, codes.Aborted)
		}
	case <-time.After(soon):
		t.Error("the operation continues without the Lease")
	}
	if err := f.reclaim(f.with(controllerToken)); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("without the Lease a call returns %v", err)
	}
}

func TestEndReleasesTheLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run()
	f.awaitLeader()
	f.stop()
	if err := <-f.ended; err != nil {
		t.Errorf("the sidecar ended with %v", err)
	}
	lease, err := f.kube.CoordinationV1().Leases("csi").
		Get(t.Context(), wire.LeaseName(driverName), metav1.GetOptions{})
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
		t.Errorf("the Lease is %v: %v", lease, err)
	}
}
