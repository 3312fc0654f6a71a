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
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
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
		lease := f.lease(ctx)
		return lease != nil && ptr.Deref(lease.Spec.HolderIdentity, "") == "pod-a"
	})
}

// lease returns the Lease of the driver, or nil.
func (f *fixture) lease(ctx context.Context) *coordinationv1.Lease {
	lease, err := f.kube.CoordinationV1().Leases("csi").
		Get(ctx, wire.LeaseName(driverName), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return lease
}

// awaitTerm waits until the sidecar executes operations of the leader. It does so a moment after
// the Lease names its pod.
func (f *fixture) awaitTerm() {
	f.Helper()
	client := wire.NewNetworkFenceClient(f.connectPinned())
	eventually(f.T, "the pod is the leader", func(context.Context) bool {
		_, err := client.FenceClusterNetwork(f.with(controllerToken), &wire.NetworkFenceRequest{})
		return status.Code(err) == codes.InvalidArgument
	})
}

// startOperation starts an operation of the controller service, waits until the driver executes it,
// and returns a channel with its result.
func (f *fixture) startOperation() <-chan error {
	f.Helper()
	ended := make(chan error, 1)
	go func() {
		for {
			err := f.reclaim(f.with(controllerToken))
			if status.Code(err) != codes.FailedPrecondition { // the pod is the leader soon
				ended <- err
				return
			}
		}
	}()
	select {
	case <-f.driver.block:
	case err := <-ended:
		f.Fatalf("the operation ended with %v", err)
	case <-time.After(soon):
		f.Fatal("the driver does not execute the operation")
	}
	return ended
}

// loseLease makes all renewals of the Lease fail after lost is set. If there is a next leader, it
// then holds the Lease.
func (f *fixture) loseLease(lost *atomic.Bool, next string) {
	f.kube.PrependReactor("*", "leases",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			switch {
			case lost.Load() && action.GetVerb() == "update":
				return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "", nil)
			case lost.Load() && action.GetVerb() == "get" && next != "":
				return true, heldBy(next), nil
			default:
				return false, nil, nil
			}
		})
}

// The container of a sidecar then starts again.
func TestLostLeaseEndsTheSidecarBeforeTheLeaseExpires(t *testing.T) {
	t.Parallel()
	const lease = 60 * time.Second
	f := newFixture(t, persistentVolume(), cloudSecret())
	f.driver.block = make(chan struct{})
	var lost atomic.Bool
	f.loseLease(&lost, "")
	f.run("--leader-election-lease-duration="+lease.String(), "--leader-election-renew-deadline=2s",
		"--leader-election-retry-period=200ms")
	operation := f.startOperation()
	lost.Store(true)
	expires := f.lease(t.Context()).Spec.RenewTime.Add(lease)
	select {
	case err := <-f.ended:
		if err == nil || !strings.Contains(err.Error(), "lost the Lease csi/example-csi") {
			t.Errorf("the sidecar ended with %v", err)
		}
	case <-time.After(soon):
		t.Fatal("the sidecar runs on without the Lease")
	}
	if time.Now().After(expires) {
		t.Errorf("the sidecar ended %v after the Lease", time.Since(expires))
	}
	began := time.Now()
	err := <-operation
	if took := time.Since(began); status.Code(err) != codes.Unavailable || took > stopTimeout/2 {
		t.Errorf("the operation ended after %v with %v, want %v at once", took, err, codes.Unavailable)
	}
}

// After a pause of the process another pod may hold the Lease.
func TestLeaderRefusesCallsWhenAnotherPodHoldsTheLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t, persistentVolume(), cloudSecret())
	var lost atomic.Bool
	f.loseLease(&lost, "pod-b")
	f.run("--leader-election-lease-duration=3600s", "--leader-election-renew-deadline=3000s",
		"--leader-election-retry-period=200ms")
	f.awaitTerm()
	lost.Store(true)
	eventually(t, "the sidecar names the next leader", func(context.Context) bool {
		err := f.reclaim(f.with(controllerToken))
		return status.Code(err) == codes.FailedPrecondition &&
			strings.Contains(err.Error(), `call the pod "pod-b"`)
	})
}

// A process that did not release the Lease leaves it to the next process of the same pod, although
// another pod may get it first.
func TestLeaseOfAnEarlierProcessDoesNotMakeThePodTheLeader(t *testing.T) {
	t.Parallel()
	f := newFixture(t, heldBy("pod-a"), persistentVolume(), cloudSecret())
	var lost atomic.Bool
	lost.Store(true)
	f.loseLease(&lost, "")
	f.run()
	eventually(t, "the sidecar has read the Lease", func(context.Context) bool {
		return f.reads("leases") > 0
	})
	for range 10 {
		if err := f.reclaim(f.with(controllerToken)); status.Code(err) != codes.FailedPrecondition {
			t.Fatalf("the call returns %v", err)
		}
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
	if lease := f.lease(t.Context()); ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
		t.Errorf("the Lease is %v", lease)
	}
}

// The controller of the CSI-Addons for Ceph compares the holder with the replaced name.
func TestLeaseNamesThePodWithHyphensForDots(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("--pod=plugin.0")
	eventually(t, "the pod holds the Lease", func(ctx context.Context) bool {
		lease := f.lease(ctx)
		return lease != nil && ptr.Deref(lease.Spec.HolderIdentity, "") == "plugin-0"
	})
}

// slowVolumes is a client that waits before it reads a PersistentVolume, even if it is cancelled.
type slowVolumes struct {
	kubernetes.Interface

	reading, answer chan struct{}
}

func (s slowVolumes) CoreV1() corev1.CoreV1Interface {
	return slowCore{s.Interface.CoreV1(), s}
}

type slowCore struct {
	corev1.CoreV1Interface

	slow slowVolumes
}

func (s slowCore) PersistentVolumes() corev1.PersistentVolumeInterface {
	close(s.slow.reading)
	<-s.slow.answer
	return s.CoreV1Interface.PersistentVolumes()
}

// A handler may ignore that its call is cancelled. Here it waits for an API server that hangs.
func TestLeaseIsReleasedAfterTheLastOperation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, persistentVolume(), cloudSecret())
	slow := slowVolumes{f.kube, make(chan struct{}), make(chan struct{})}
	f.client = slow
	released := make(chan struct{})
	f.kube.PrependReactor("update", "leases",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
			if ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
				close(released)
			}
			return false, nil, nil
		})
	f.run()
	f.awaitTerm()
	ended := make(chan error, 1)
	go func() { ended <- f.reclaim(f.with(controllerToken)) }()
	<-slow.reading
	f.stop()
	if err := <-ended; status.Code(err) != codes.Unavailable { // after stopTimeout
		t.Errorf("the call returns %v when the sidecar stops", err)
	}
	select {
	case <-released:
		t.Error("the sidecar releases the Lease before the operation ends")
	case <-time.After(time.Second): // it would follow immediately
	}
	close(slow.answer)
	select {
	case <-released:
	case <-time.After(soon):
		t.Error("the sidecar does not release the Lease")
	}
}
