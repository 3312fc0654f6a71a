package fence

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// callInterval is the time between two calls of a driver.
	callInterval = 100 * time.Millisecond
	// waitInterval is the time after which a NetworkFence that waits for the end of another one is
	// compared again.
	waitInterval = 15 * time.Second
	// verifyInterval is the time after which a fence is verified: somebody may have given clients
	// access again, which the controller does not see. leaderInterval is that after an attempt without
	// a connection to the leader of the driver.
	verifyInterval, leaderInterval = 10 * time.Minute, time.Minute
	// maxBusy is how many calls in a row may take too long until the status says so, and others of the
	// driver get a turn.
	maxBusy = 3
)

// caller makes the calls of a driver, one at a time. So each call depends on the NetworkFences that
// exist when it starts.
type caller struct {
	*Reconciler

	name string
	// turns are those of the NetworkFences that need a call now or later.
	turns map[types.UID]*turn
	// cancel ends a verification.
	cancel atomic.Pointer[context.CancelFunc]
}

// turn is when a NetworkFence is called next.
type turn struct {
	// of is what the rest is about: see task.about.
	of   string
	next time.Time
	// failures are consecutive failures, and busy consecutive calls that took too long.
	failures, busy int
	// alone means that a call with others has failed.
	alone bool
}

// interrupt ends a verification in favor of a fence.
func (c *caller) interrupt() {
	if cancel := c.cancel.Load(); cancel != nil {
		(*cancel)()
	}
}

// reconcile makes the next call, if one is due.
func (c *caller) reconcile(ctx context.Context) (reconcile.Result, error) {
	// A fence that the following list lacks interrupts.
	interruptible, cancel := context.WithCancel(ctx)
	defer cancel()
	c.cancel.Store(&cancel)
	tasks, err := c.tasks(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch chosen, all := c.choose(ctx, tasks); {
	case len(chosen) == 0:
	case chosen[0].kind == verifies:
		c.perform(interruptible, chosen, all)
	default:
		c.perform(ctx, chosen, all)
	}
	result, now := reconcile.Result{}, c.Clock.Now()
	for _, t := range tasks {
		after := max(t.next.Sub(now), callInterval)
		if result.RequeueAfter == 0 || after < result.RequeueAfter {
			result.RequeueAfter = after
		}
	}
	return result, nil
}

// kind is the kind of a call.
type kind int

const (
	fences kind = iota
	unfences
	verifies
)

// task is a NetworkFence that needs a call now or later.
type task struct {
	*turn

	fence  *v1alpha1.NetworkFence
	kind   kind
	driver string
	// request is what to send, and done is the outcome of its success.
	request *wire.NetworkFenceRequest
	done    outcome
}

// group is equal for NetworkFences with the same parameters and Secret.
func (t *task) group() string {
	return fmt.Sprint(t.request.GetParameters(), t.request.GetSecretNamespace(), "/",
		t.request.GetSecretName())
}

// about returns what a turn is about. A change of it ends all waiting.
func (t *task) about(k kind) string { return fmt.Sprint(t.fence.Generation, k, t.group()) }

// rank returns which kinds of calls come first. A fence that takes very long takes turns with the
// ends of fences.
func (t *task) rank() kind {
	if t.kind == fences && t.busy >= maxBusy {
		return unfences
	}
	return t.kind
}

// tasks reads all NetworkFences from the API server, and returns those that need calls of the
// driver, the next ones first.
func (c *caller) tasks(ctx context.Context) ([]*task, error) {
	var list v1alpha1.NetworkFenceList
	if err := c.Live.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing NetworkFences: %w", err)
	}
	var all, found []*task
	for i := range list.Items {
		f := &list.Items[i]
		if f.DeletionTimestamp != nil {
			continue
		}
		driver, asked, err := request(ctx, c.Client, f)
		t := &task{fence: f, driver: driver, request: asked}
		all = append(all, t)
		unfence := f.Spec.FenceState == v1alpha1.Unfenced
		switch {
		case err != nil, driver != c.name, unfence && settled(f):
			continue // the reconcile of the NetworkFence reports the error
		case unfence:
			t.kind = unfences
		case settled(f):
			t.kind = verifies
		}
		found = append(found, t)
	}
	turns := map[types.UID]*turn{}
	for _, t := range found {
		if t.turn = c.turns[t.fence.UID]; t.turn == nil || t.of != t.about(t.kind) {
			t.turn = &turn{of: t.about(t.kind)}
		}
		turns[t.fence.UID] = t.turn
		if t.kind != verifies {
			others := compare(t.fence, sameStorage(all, t))
			if t.done = others.outcome(t.fence); t.kind == unfences {
				t.request.Cidrs = masked(others.unfenced)
			}
		}
	}
	c.turns = turns
	slices.SortStableFunc(found, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), a.next.Compare(b.next))
	})
	return found, nil
}
