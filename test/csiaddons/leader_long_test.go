//go:build integration && long

package csiaddons

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"

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
	entered, cancelled := make(chan struct{}, 10), make(chan struct{}, 10)
	d := &fakeDriver{
		name: "cinder", services: services{nodeService, controllerService},
		reclaims: reclaims{online, offline}, onNode: answers(30, 20, nil),
	}
	d.inController = func(ctx context.Context) (usage, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		if d.controllerCalls.Load() > 1 {
			return usage{pre: 20, post: 5}, nil
		}
		entered <- struct{}{}
		<-ctx.Done()
		cancelled <- struct{}{}
		return usage{}, status.FromContextError(ctx.Err()).Err()
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
	first, ended := w.newController(config, args...), make(chan error, 1)
	go func() {
		ended <- first.Run(t.Context())
		close(ended)
	}()
	t.Cleanup(func() { // before another test uses the cluster
		for range ended {
		}
	})
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
