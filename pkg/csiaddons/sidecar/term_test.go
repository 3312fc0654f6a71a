package sidecar

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// startOperation starts an operation of the controller service, waits until the driver executes it,
// and returns a channel with its result.
func (f *fixture) startOperation() <-chan error {
	f.Helper()
	ended := make(chan error, 1)
	go func() {
		for {
			err := f.reclaim(f.with(controllerToken))
			if status.Code(err) != codes.FailedPrecondition { // the term starts soon
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

// Requests that hang delay the elector, but not the end of the term.
func TestTermEndsBeforeTheLeaseIfRenewalsHang(t *testing.T) {
	t.Parallel()
	f := newFixture(t, persistentVolume(), cloudSecret())
	f.driver.block = make(chan struct{})
	var hangs atomic.Bool
	hung := make(chan struct{})
	f.kube.PrependReactor("update", "leases",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			if hangs.Load() {
				<-hung
			}
			return false, nil, nil
		})
	f.run("--leader-election-lease-duration=60s", "--leader-election-renew-deadline=2s",
		"--leader-election-retry-period=200ms")
	t.Cleanup(func() { close(hung) })
	ended := f.startOperation()
	lease, err := f.kube.CoordinationV1().Leases("csi").
		Get(t.Context(), wire.LeaseName(driverName), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hangs.Store(true) // the fake client serves no other request then
	select {
	case err := <-ended:
		if status.Code(err) != codes.Aborted {
			t.Errorf("the operation ended with %v, want %v", err, codes.Aborted)
		}
		if end := lease.Spec.RenewTime.Add(60 * time.Second); time.Now().After(end) {
			t.Errorf("the operation ended %v after the Lease", time.Since(end))
		}
	case <-time.After(soon):
		t.Error("the operation continues while renewals hang")
	}
}

// After a pause of the process another pod may hold the Lease. The elector would try to renew it
// until the renew deadline.
func TestTermEndsWhenAnotherPodHoldsTheLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t, persistentVolume(), cloudSecret())
	f.driver.block = make(chan struct{})
	var stolen atomic.Bool
	f.kube.PrependReactor("*", "leases",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			switch {
			case !stolen.Load():
				return false, nil, nil
			case action.GetVerb() == "get":
				return true, heldBy("pod-b"), nil
			default:
				return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "", nil)
			}
		})
	f.run("--leader-election-lease-duration=3600s", "--leader-election-renew-deadline=3000s",
		"--leader-election-retry-period=200ms")
	ended := f.startOperation()
	stolen.Store(true)
	select {
	case err := <-ended:
		if status.Code(err) != codes.Aborted {
			t.Errorf("the operation ended with %v, want %v", err, codes.Aborted)
		}
	case <-time.After(soon):
		t.Error("the operation continues while another pod is the leader")
	}
}

// newTestElection returns an election of a pod with a renew deadline of ten seconds.
func newTestElection() *election {
	s := &Sidecar{
		Settings: &Settings{
			Pod: Pod{Name: "pod-a"}, Election: Election{Namespace: "csi", RenewDeadline: 10 * time.Second},
		},
		Metrics: NewMetrics(),
	}
	return s.newElection(driver.Description{Name: driverName, Controller: true})
}

func TestTermLastsUntilTheRenewDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the time of the bubble passes without waiting
		e := newTestElection()
		e.renewed(time.Now())
		first, err := e.current()
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(6 * time.Second)
		e.renewed(time.Now().Add(-time.Second)) // the request took a second
		<-time.After(8 * time.Second)
		if again, err := e.current(); err != nil || again != first || first.ended.Err() != nil {
			t.Errorf("the renewed term is %v: %v", again, err)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if first.ended.Err() == nil {
			t.Error("operations continue after the renew deadline")
		}
		if _, err := e.current(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("after the renew deadline a call returns %v", err)
		}
		e.renewed(time.Now())
		if second, err := e.current(); err != nil || second == first || second.ended.Err() != nil {
			t.Errorf("the next term is %v: %v", second, err)
		}
		e.end()
	})
}

// The monotonic clock shows no elapsed time after a sleep of the machine.
func TestTermEndsByTheWallClock(t *testing.T) {
	t.Parallel()
	start := time.Now()
	lead := &term{until: start.Add(10 * time.Second)}
	for after, want := range map[time.Duration]bool{
		-time.Hour: false, 9 * time.Second: false, 10 * time.Second: true, time.Hour: true,
	} {
		now := start.Add(after)
		if got := lead.over(now); got != want {
			t.Errorf("after %v by both clocks the term is over: %v, want %v", after, got, want)
		}
		if got := lead.over(now.Round(0)); got != want {
			t.Errorf("after %v by the wall clock the term is over: %v, want %v", after, got, want)
		}
	}
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

func TestDeadlineOfTheCallerReplacesTheTimeout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		caller   time.Duration // 0 means none
		min, max time.Duration
	}{
		"none":     {0, 0, time.Minute},
		"shorter":  {30 * time.Second, 0, 30 * time.Second},
		"longer":   {30 * time.Minute, 2 * time.Minute, 30 * time.Minute},
		"too long": {5 * time.Hour, 2 * time.Minute, maxDeadline},
	} {
		ctx, cancel := t.Context(), func() {}
		if test.caller > 0 {
			ctx, cancel = context.WithTimeout(ctx, test.caller)
		}
		check := func(ctx context.Context, _ any) (any, error) {
			end, ok := ctx.Deadline()
			if left := time.Until(end); !ok || left < test.min || left > test.max {
				t.Errorf("%s: the operation may take %v, want %v to %v", name, left, test.min, test.max)
			}
			return nil, nil
		}
		if _, err := deadline(time.Minute).limit(ctx, nil, nil, check); err != nil {
			t.Error(err)
		}
		cancel()
	}
}
