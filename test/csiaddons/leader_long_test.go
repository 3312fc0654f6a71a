//go:build integration && long

package csiaddons

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// cable is the network between a controller and the API server.
type cable struct {
	http.RoundTripper

	cut atomic.Bool
}

func (c *cable) RoundTrip(request *http.Request) (*http.Response, error) {
	if c.cut.Load() {
		return nil, errors.New("the test has cut the cable")
	}
	return c.RoundTripper.RoundTrip(request)
}

// TestLeaderChangesDuringAJob cuts the leading controller off from the API server while the second
// call of a job runs. So that controller can write nothing any more, as after a crash. Another one
// completes the job: it repeats only the call whose result is unknown, and not before the first
// controller has cancelled it.
func TestLeaderChangesDuringAJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var running, most atomic.Int32
	d, entered, cancelled := hangingDriver()
	hang := d.inController
	d.inController = func(ctx context.Context) (usage, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		return hang(ctx)
	}
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), d)
	w.addVolume("data", "cinder", "worker-1")
	args := []string{
		"--driver-namespaces=cinder=" + driverNamespace, "--leader-election-lease-duration=15s",
		"--leader-election-renew-deadline=10s",
	}

	network := &cable{}
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		network.RoundTripper = next
		return network
	})
	ended, _ := w.runController(config, args...)
	w.awaitSidecar("cinder", connected)
	w.addJob("job", "data")
	w.receive(entered, "the call of the job")
	w.startController(args...)
	network.cut.Store(true)

	w.receive(cancelled, "the cancellation of the call of a controller without the Lease")
	job := w.awaitEnd("job")
	if job.Status.Result != v1alpha1.OperationSucceeded || job.Status.Retries != 0 ||
		job.Status.ReclaimedSpace.String() != "25" {
		t.Errorf("the job ended with %+v", job.Status)
	}
	if n, c := d.nodeCalls.Load(), d.controllerCalls.Load(); n != 1 || c != 2 || most.Load() != 1 {
		t.Errorf("the driver got %d calls on the node and %d in its controller service, at most %d at "+
			"the same time, want 1, 2 and 1", n, c, most.Load())
	}
	if err := <-ended; err == nil {
		t.Error("the first controller runs on without the Lease")
	}
}

// TestFrozenControllerWritesNothing suspends the controller until another one has its Lease. It
// notices that only when its deadline for renewals ends, but does not run a job meanwhile.
func TestFrozenControllerWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := nodeDriver("cinder")
	w.addSidecar(w.addPod(driverNamespace, "plugin", "worker-1"), d)
	w.addVolume("data", "cinder", "worker-1")
	p := w.startProcess("--leader-elect", "--leader-election-lease-duration=20s",
		"--leader-election-renew-deadline=19s")
	w.awaitSidecar("cinder", connected)
	w.must(syscall.Kill(p.PID(), syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(p.PID(), syscall.SIGCONT) }) // it may have ended
	lock := &coordinationv1.Lease{}
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, types.NamespacedName{
			Namespace: systemNamespace, Name: "csi-addons-openstack",
		}, lock)
		if err != nil {
			return false, err
		}
		end := lock.Spec.RenewTime.Add(time.Duration(*lock.Spec.LeaseDurationSeconds) * time.Second)
		return time.Now().After(end), nil
	})
	lock.Spec.HolderIdentity = ptr.To("another")
	lock.Spec.RenewTime = ptr.To(metav1.NowMicro())
	w.must(w.client.Update(t.Context(), lock))
	w.addJob("job", "data")
	w.must(syscall.Kill(p.PID(), syscall.SIGCONT))

	if _, err := p.Wait(soon); err != nil {
		t.Fatal(err)
	}
	job := &v1alpha1.ReclaimSpaceJob{}
	w.must(w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "job"}, job))
	if job.Generation != 1 || len(job.ManagedFields) != 1 || d.nodeCalls.Load() != 0 {
		t.Errorf("the controller wrote without the Lease: %d calls, %+v", d.nodeCalls.Load(), job)
	}
}
