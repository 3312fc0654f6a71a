// Package fence runs NetworkFences: it calls the leader of the driver to fence or unfence clients
// of storage. It also writes the clients of each node into the status of its CSIAddonsNode.
package fence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// Reconciler runs NetworkFences. One reconcile is about all of a driver. It reads them, decides
// which call starts or is canceled and what each status says, and waits for no call. It runs again
// when a call has ended, after each event, and when something is due.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server, without a cache.
	Live     client.Reader
	Sidecars interface {
		Leader(ctx context.Context, driver string, capabilities ...string) (leader *connection.Sidecar,
			hasLease bool, err error)
	}
	Drivers connection.Drivers
	Events  events.EventRecorder
	Metrics *connection.Metrics
	Clock   clock.PassiveClock

	// drivers are the states of the drivers, by name. That of noDriver is about the NetworkFences of
	// no driver that the controller serves.
	drivers map[string]*state
	// verified is when each fence that holds was last verified.
	verified verifications
	// calls receives the calls to run, and queue gets the driver of each call that has ended.
	calls chan func(context.Context)
	queue connection.Queue
}

// noDriver is instead of the name of a driver. It is no valid name.
const noDriver = ""

// Reconcile makes one decision about a driver. After an error of the API server, the next one
// follows after serverRetry.
func (r *Reconciler) Reconcile(ctx context.Context, driver reconcile.Request,
) (reconcile.Result, error) {
	s := r.drivers[driver.Name]
	tasks, err := r.tasks(ctx, s)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.collect(s, tasks)
	chosen := s.decide(tasks, r.Clock.Now())
	if chosen.cancel {
		s.running.canceled = true
		s.running.cancel()
	}
	after := r.writeAll(ctx, chosen.results, false)
	if after == 0 && len(chosen.results) > 0 {
		return reconcile.Result{RequeueAfter: callInterval}, nil
	}
	after = sooner(after, r.writeAll(ctx, chosen.writes, false))
	if chosen.start != nil {
		after = sooner(after, r.start(ctx, s, chosen.start))
	}
	after = sooner(after, r.writeAll(ctx, chosen.waits, false))
	r.publish(driver.Name, tasks)
	return reconcile.Result{RequeueAfter: sooner(after, s.wake(tasks, r.Clock.Now()))}, nil
}

// tasks reads all NetworkFences from the API server, and returns those of a driver.
func (r *Reconciler) tasks(ctx context.Context, s *state) ([]*task, error) {
	var list v1alpha1.NetworkFenceList
	if err := r.Live.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing NetworkFences: %w", err)
	}
	var all, own []*task
	var failed []error
	for i := range list.Items {
		f := &list.Items[i]
		if f.DeletionTimestamp != nil { // a deletion changes nothing in the storage
			if s.driver == noDriver {
				failed = append(failed,
					connection.Release(ctx, r.Client, f, v1alpha1.NetworkFenceFinalizer))
			}
			continue
		}
		t := &task{fence: f}
		t.driver, t.request, t.problem = request(ctx, r.Client, f)
		served := r.drivers[t.driver]
		if served == nil {
			served = r.drivers[noDriver]
			t.problem = invalidf(ReasonNoDriver, "The controller does not serve the driver %.63q: an "+
				"administrator can allow it with the flag --driver-namespaces", t.driver)
		}
		all = append(all, t)
		if served == s && (f.Spec.FenceState != v1alpha1.Unfenced || !settled(f)) {
			own = append(own, t)
		}
	}
	turns := make(map[types.UID]*turn, len(own))
	for _, t := range own {
		t.turn = s.turnOf(t, r.Clock.Now())
		turns[t.fence.UID] = t.turn
		if t.problem == nil && t.kind != verifies {
			others := compare(t.fence, sameStorage(all, t))
			if t.done = others.outcome(t.fence); t.kind == unfences {
				t.request.Cidrs = masked(others.unfenced)
			}
		}
	}
	s.turns = turns
	r.verified.keep(all)
	return own, errors.Join(failed...)
}

// collect takes the result of a call that has ended, and reads when fences were verified.
func (r *Reconciler) collect(s *state, tasks []*task) {
	if c := s.running; c != nil && len(c.ended) > 0 {
		ended := <-c.ended
		s.running = nil
		if s.settle(c, ended) {
			r.verified.set(c.tasks, ended.at)
			r.repaired(s.driver, c, ended.changed)
		}
		if c.kind == fences { // it has kept others from being verified
			r.verified.pause(c, tasks, ended.at)
		}
	}
	r.verified.fill(tasks, r.Clock.Now())
}

// start writes that a call starts, and starts it. It does not if the driver has no leader, or if a
// write fails: then a NetworkFence may have changed, and the next decision is about the new one.
func (r *Reconciler) start(ctx context.Context, s *state, c *call) time.Duration {
	leader, _, err := r.Sidecars.Leader(ctx, s.driver, connection.NetworkFence)
	if err == nil && leader == nil {
		err = fmt.Errorf("the controller is not connected to the pod that is the leader of driver %s "+
			"and can fence", s.driver)
	}
	s.obstacle = err
	var writes []write
	for _, t := range c.tasks {
		switch {
		case err != nil:
			t.next = r.Clock.Now().Add(leaderInterval)
			if c.kind != verifies { // a new pod may replace the leader, and the fence holds
				writes = append(writes, write{t, describe(err)})
			}
		case c.kind != verifies:
			writes = append(writes, write{t, t.started(leader)})
		}
	}
	after := r.writeAll(ctx, writes, err == nil)
	if err == nil && after == 0 {
		r.run(ctx, s, c, leader)
	}
	return after
}

// run runs a call in the background. The call ends with the manager, before it releases the Lease.
func (r *Reconciler) run(ctx context.Context, s *state, c *call, leader *connection.Sidecar) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	c.cancel, c.began, s.running = cancel, r.Clock.Now(), c
	select {
	case r.calls <- func(stopping context.Context) {
		defer cancel()
		stop := context.AfterFunc(stopping, cancel)
		defer stop()
		c.ended <- r.send(limited, s.driver, leader, c)
		connection.Enqueue(r.queue, types.NamespacedName{Name: s.driver}, connection.First, 0)
	}:
	case <-ctx.Done():
		cancel()
	}
}

// wake returns the time until the next decision, unless an event or the end of a call comes
// earlier. It is 0 if there is none.
func (s *state) wake(tasks []*task, now time.Time) (after time.Duration) {
	for _, t := range tasks {
		if until := t.verified.Add(maxUnverified).Sub(now); t.kind == verifies && until > 0 {
			after = sooner(after, until)
		}
		until := s.due(t).Sub(now)
		switch {
		case t.unwritten != nil || !t.callable(), s.running.contains(t), until <= 0 && s.running != nil:
		default:
			after = sooner(after, max(until, callInterval))
		}
	}
	return after
}

// sooner returns the shorter one of two times, of which 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
