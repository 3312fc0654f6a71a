package sidecar

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
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

func TestPodThatIsNotTheLeaderNamesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, heldBy("pod-b"))
	f.run()
	eventually(t, "the sidecar names the leader", func(context.Context) bool {
		err := f.reclaim()
		assert.Assert(t, status.Code(err) == codes.FailedPrecondition, "the call returns %v", err)
		return strings.Contains(err.Error(), `call the pod "pod-b"`)
	})
	request := &wire.NetworkFenceRequest{Cidrs: []string{"10.0.0.1/32"}}
	connection := f.connectPinned()
	_, err := wire.FenceClusterNetwork.Call(f.with(controllerToken), connection, request)
	_, errOfEnd := wire.UnFenceClusterNetwork.Call(f.with(controllerToken), connection, request)
	for _, err := range []error{err, errOfEnd} {
		assert.Check(t, is.Equal(status.Code(err), codes.FailedPrecondition))
	}
	// What belongs to the node needs no leader.
	_, err = f.reclaimOnNode("data")
	assert.Check(t, err)
}

func TestOperationsNeedTheirService(t *testing.T) {
	t.Parallel()
	for service, reclaim := range map[identity.Capability_Service_Type]func(*fixture) error{
		identity.Capability_Service_NODE_SERVICE: (*fixture).reclaim,
		identity.Capability_Service_CONTROLLER_SERVICE: func(f *fixture) error {
			_, err := f.reclaimOnNode("data")
			return err
		},
	} {
		f := newFixture(t)
		f.answers.services = []identity.Capability_Service_Type{service}
		f.run()
		err := reclaim(f)
		assert.Check(t, status.Code(err) == codes.FailedPrecondition, "with only %v: %v", service, err)
		// Only pods with the controller service take part in elections.
		assert.Check(t, service == identity.Capability_Service_CONTROLLER_SERVICE ||
			f.requests("get", "leases") == 0, "the sidecar has read a Lease")
	}
}

// awaitHolder waits until the Lease names a holder.
func (f *fixture) awaitHolder(holder string) {
	f.Helper()
	eventually(f.T, "the pod holds the Lease", func(ctx context.Context) bool {
		lease := f.lease(ctx)
		return lease != nil && ptr.Deref(lease.HolderIdentity, "") == holder
	})
}

// lease returns the Lease of the driver, or nil.
func (f *fixture) lease(ctx context.Context) *coordinationv1.LeaseSpec {
	lease, err := f.kube.CoordinationV1().Leases("csi").
		Get(ctx, wire.LeaseName(driverName), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return &lease.Spec
}

// startOperation starts an operation of the controller service, waits until the driver executes it,
// and returns a channel with its result.
func (f *fixture) startOperation() <-chan error {
	f.Helper()
	ended := make(chan error, 1)
	go func() {
		for {
			err := f.reclaim()
			if status.Code(err) != codes.FailedPrecondition { // the pod is the leader soon
				ended <- err
				return
			}
		}
	}()
	select {
	case <-f.answers.block:
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
	f := newFixture(t)
	f.answers.block = make(chan struct{})
	var lost atomic.Bool
	f.loseLease(&lost, "")
	f.run("--leader-election-lease-duration="+lease.String(), "--leader-election-renew-deadline=2s",
		"--leader-election-retry-period=200ms")
	operation := f.startOperation()
	lost.Store(true)
	expires := f.lease(t.Context()).RenewTime.Add(lease)
	select {
	case err := <-f.ended:
		assert.Check(t, is.ErrorContains(err, "lost the Lease csi/example-csi"))
	case <-time.After(soon):
		t.Fatal("the sidecar runs on without the Lease")
	}
	assert.Check(t, !time.Now().After(expires), "it ended %v after the Lease", time.Since(expires))
	began := time.Now()
	err := <-operation
	assert.Check(t, is.Equal(status.Code(err), codes.Unavailable), "the operation")
	assert.Check(t, time.Since(began) <= stopTimeout/2, "it ended after %v", time.Since(began))
}

// After a pause of the process another pod may hold the Lease.
func TestLeaderRefusesCallsWhenAnotherPodHoldsTheLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var lost atomic.Bool
	f.loseLease(&lost, "pod-b")
	f.run("--leader-election-lease-duration=3600s", "--leader-election-renew-deadline=3000s",
		"--leader-election-retry-period=200ms")
	_ = f.awaitTerm()
	lost.Store(true)
	eventually(t, "the sidecar names the next leader", func(context.Context) bool {
		err := f.reclaim()
		return status.Code(err) == codes.FailedPrecondition &&
			strings.Contains(err.Error(), `call the pod "pod-b"`)
	})
}

// A process that did not release the Lease leaves it to the next process of the same pod, although
// another pod may get it first.
func TestLeaseOfAnEarlierProcessDoesNotMakeThePodTheLeader(t *testing.T) {
	t.Parallel()
	f := newFixture(t, heldBy("pod-a"))
	var lost atomic.Bool
	lost.Store(true)
	f.loseLease(&lost, "")
	f.run()
	eventually(t, "the sidecar has read the Lease", func(context.Context) bool {
		return f.requests("get", "leases") > 0
	})
	for range 10 {
		assert.Equal(t, status.Code(f.reclaim()), codes.FailedPrecondition)
	}
}

// The controller of the CSI-Addons for Ceph compares the holder with the replaced name.
func TestLeaseNamesThePodWithHyphensForDots(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("--pod=plugin.0")
	f.awaitHolder("plugin-0")
	f.stop()
	assert.Check(t, <-f.ended, "the sidecar ended with")
	f.awaitHolder("")
}

func TestLeaseIsReleasedAfterTheLastOperation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.answers.block = make(chan struct{})
	f.run()
	operation := f.startOperation()
	f.stop()
	select {
	case err := <-f.ended:
		t.Errorf("the sidecar ends before the operation: %v", err)
	case <-time.After(stopTimeout / 2):
	}
	assert.Check(t, is.Equal(*f.lease(t.Context()).HolderIdentity, "pod-a"))
	assert.Check(t, is.Equal(status.Code(<-operation), codes.Unavailable), "after stopTimeout")
	f.awaitHolder("")
}
