package operator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// prerequisitesTimeout bounds how long workload controllers wait for the prerequisites. A pod that
// is created before them is rejected, and recreated only after minutes of back-off. But a workload
// that starts late and incomplete is better than none.
const prerequisitesTimeout = 30 * time.Second

// runner starts the controllers of an operator, phase by phase.
type runner struct {
	// drivers contains the leading driver first.
	drivers     []*driver
	controllers map[phase][]factory.Controller
	running     sync.WaitGroup
}

// run starts the controllers and the informers that they use. It returns when ctx is done and all
// controllers have ended.
func (r *runner) run(ctx context.Context) {
	r.start(ctx, always)
	r.drivers[0].cluster.Start(ctx)
	if r.waitUntilNeeded(ctx) {
		klog.FromContext(ctx).Info("Starting the driver", "driver", r.drivers[0].csiDriver)
		r.drivers[0].awaitChoices(ctx)
		r.start(ctx, driverNeeded)
		r.waitForPrerequisites(ctx)
		r.drivers[0].release = r.drivers[0].releaseOfOpenShift(ctx)
		r.start(ctx, workloads)
	}
	<-ctx.Done()
	r.running.Wait()
}

func (r *runner) start(ctx context.Context, p phase) {
	for _, c := range r.controllers[p] {
		r.running.Go(func() { c.Run(ctx, 1) })
	}
}

// waitUntilNeeded returns true when the driver is needed, and false if ctx is done before. A driver
// that does not wait for OpenStack is always needed.
func (r *runner) waitUntilNeeded(ctx context.Context) bool {
	leader := r.drivers[0]
	if !leader.components.StartWhenAvailable {
		return true
	}
	select {
	case <-leader.needed:
		return true
	case <-ctx.Done():
		return false
	}
}

// waitForPrerequisites waits for what the pods need when they start, until the timeout at most. The
// timeout begins when the operator reconciles: until then nothing writes the prerequisites.
func (r *runner) waitForPrerequisites(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true,
		func(context.Context) (bool, error) {
			spec, _, _, err := r.drivers[0].operator.GetOperatorState()
			return err == nil && guest.Managed(spec), nil
		})
	ctx, cancel := context.WithTimeout(ctx, prerequisitesTimeout)
	defer cancel()
	r.drivers[0].waitFor(ctx, "observed configuration of the cluster", r.drivers[0].hasObservedConfig)
	for _, d := range r.drivers {
		d.waitFor(ctx, "static objects", d.initialSyncs.done)
		d.waitFor(ctx, "configuration of the driver", d.components.Ready)
	}
}

// waitFor polls met until it returns true. A nil function counts as met.
func (d *driver) waitFor(ctx context.Context, prerequisite string, met func() bool) {
	if met == nil {
		return
	}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true,
		func(context.Context) (bool, error) { return met(), nil })
	if err != nil {
		klog.FromContext(ctx).Info("Timed out waiting for prerequisites; starting workload controllers",
			"driver", d.csiDriver, "missing", prerequisite)
	}
}

// hasObservedConfig returns whether the ClusterCSIDriver has all values that the workloads need.
func (d *driver) hasObservedConfig() bool {
	_, _, _, err := d.cluster.Workloads(d.operator).GetOperatorState()
	return err == nil
}

// initialSyncs reports when each of several sync functions has succeeded once.
type initialSyncs struct {
	pending atomic.Int32
}

// track returns f, whose first success counts.
func (s *initialSyncs) track(f factory.SyncFunc) factory.SyncFunc {
	s.pending.Add(1)
	succeeded := sync.OnceFunc(func() { s.pending.Add(-1) })
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		err := f(ctx, syncCtx)
		if err == nil {
			succeeded()
		}
		return err
	}
}

func (s *initialSyncs) done() bool { return s.pending.Load() == 0 }
