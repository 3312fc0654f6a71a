package reclaimspace

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// call is a call of a driver for a job. It runs outside reconciliations, so a long call occupies no
// worker.
type call struct {
	uid    types.UID // of the job
	cancel context.CancelFunc
	ended  bool
	outcome
}

// outcome is the result of a call.
type outcome struct {
	step   v1alpha1.ReclaimSpaceStep
	driver string
	answer *wire.ReclaimSpaceResponse
	err    error
}

// calls contains the calls that run, and those that have ended and are not in the status of their
// job yet. It is safe for concurrent use.
type calls struct {
	// wake reconciles a job whose call has ended. It must not block.
	wake func(types.NamespacedName)

	mu       sync.Mutex
	running  sync.WaitGroup
	stopping bool
	known    map[types.NamespacedName]*call
}

// start runs a call for at most timeout. It returns false without a call after stop.
func (c *calls) start(ctx context.Context, job *v1alpha1.ReclaimSpaceJob, timeout time.Duration,
	run func(context.Context) outcome,
) bool {
	name := types.NamespacedName{Namespace: job.Namespace, Name: job.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	started := &call{uid: job.UID, cancel: cancel}
	if c.known == nil {
		c.known = map[types.NamespacedName]*call{}
	}
	c.known[name] = started
	c.running.Go(func() {
		defer cancel()
		result := run(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		started.ended, started.outcome = true, result
		c.wake(name)
	})
	return true
}

// find returns the call of a job, and whether it has ended. The call is nil if there is none.
func (c *calls) find(name types.NamespacedName, uid types.UID) (*outcome, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.known[name]
	switch {
	case found == nil:
		return nil, false
	case found.uid != uid: // of a deleted job with the same name
		found.cancel()
		delete(c.known, name)
		return nil, false
	default:
		result := found.outcome
		return &result, found.ended
	}
}

// forget drops the call of a job, and cancels it if it runs. It returns whether it ran.
func (c *calls) forget(name types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.known[name]
	if found == nil {
		return false
	}
	found.cancel()
	delete(c.known, name)
	return !found.ended
}

// stop cancels all calls and waits for their end.
func (c *calls) stop() {
	c.mu.Lock()
	c.stopping = true
	for _, one := range c.known {
		one.cancel()
	}
	c.mu.Unlock()
	c.running.Wait()
}

// results returns the results of the calls that have ended and were not cancelled.
func (c *calls) results() map[types.NamespacedName]*outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[types.NamespacedName]*outcome{}
	for name, one := range c.known {
		if one.ended && status.Code(one.err) != codes.Canceled {
			found[name] = &one.outcome
		}
	}
	return found
}
