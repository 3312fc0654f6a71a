package node

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

const (
	// maxAttempts limits the attempts at the same time, and maxRepeated those of sidecars to which an
	// attempt has failed before. So sidecars that do not answer never delay the others for long.
	maxAttempts, maxRepeated = 100, 50
	// maxPerHost limits the attempts to connect to one IP address at the same time.
	maxPerHost = 4
	// busyHostDelay is the time after which an attempt follows that maxPerHost has prevented.
	busyHostDelay = time.Second
	// attemptTimeout limits one attempt, in which the sidecar checks the token.
	attemptTimeout = 15 * time.Second
)

// attempts contains the attempts to connect that run, and those that have ended and are not in the
// status of their CSIAddonsNode yet. They run outside reconciliations, so a host that does not
// answer occupies no worker. It is safe for concurrent use.
type attempts struct {
	connect func(context.Context, types.NamespacedName, connection.Target) ([]string, error)
	// wake reconciles a CSIAddonsNode whose attempt has ended. It returns when the context is done.
	wake func(context.Context, types.NamespacedName)

	all, repeated *semaphore.Weighted

	mu       sync.Mutex
	stopping bool
	known    map[types.NamespacedName]*attempt
	hosts    map[string]int // attempts by IP address
	ended    sync.WaitGroup
}

// attempt is an attempt to connect to a sidecar.
type attempt struct {
	target  connection.Target
	cancel  context.CancelFunc
	running bool
	// failed is the number of failed attempts since the last success.
	failed int

	result *result // nil while the attempt runs, and after take
}

// result is the result of an attempt.
type result struct {
	capabilities []string
	err          error
	// failed is the number of failed attempts since the last success, with this one.
	failed int
}

func newAttempts(
	connect func(context.Context, types.NamespacedName, connection.Target) ([]string, error),
	wake func(context.Context, types.NamespacedName),
) *attempts {
	return &attempts{
		connect: connect, wake: wake,
		all: semaphore.NewWeighted(maxAttempts), repeated: semaphore.NewWeighted(maxRepeated),
		known: map[types.NamespacedName]*attempt{}, hosts: map[string]int{},
	}
}

// take returns the result of the last attempt to connect to a target, once. It returns nil if there
// is none.
func (a *attempts) take(name types.NamespacedName, target connection.Target) *result {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.known[name]
	if found == nil || found.target != target || found.result == nil {
		return nil
	}
	taken := found.result
	found.result = nil
	if taken.err == nil {
		delete(a.known, name)
	}
	return taken
}

// start starts an attempt, unless one runs or the controller ends. It returns the time after which
// to call it again, or 0.
func (a *attempts) start(ctx context.Context, name types.NamespacedName, target connection.Target,
) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.known[name]
	if found != nil && found.target != target {
		found.cancel()
		found = nil
	}
	host, _, err := net.SplitHostPort(target.Address)
	switch {
	case a.stopping || found != nil && found.running:
		return 0
	case err == nil && a.hosts[host] >= maxPerHost:
		return busyHostDelay
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	one := &attempt{target: target, cancel: cancel, running: true}
	if found != nil {
		one.failed = found.failed
	}
	a.known[name] = one
	a.hosts[host]++
	a.ended.Go(func() {
		defer cancel()
		capabilities, err := a.run(ctx, name, one)
		if a.finish(name, host, one, &result{capabilities: capabilities, err: err}) {
			a.wake(ctx, name)
		}
	})
	return 0
}

// run waits for its turn and connects.
func (a *attempts) run(ctx context.Context, name types.NamespacedName, one *attempt,
) ([]string, error) {
	if one.failed > 0 {
		if err := a.repeated.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		defer a.repeated.Release(1)
	}
	if err := a.all.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer a.all.Release(1)
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return a.connect(ctx, name, one.target)
}

// finish stores the result of an attempt. It returns false if nobody needs it.
func (a *attempts) finish(name types.NamespacedName, host string, one *attempt, got *result) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hosts[host]--; a.hosts[host] == 0 {
		delete(a.hosts, host)
	}
	one.running = false
	if got.err != nil {
		one.failed++
	}
	got.failed, one.result = one.failed, got
	return a.known[name] == one
}

// forget cancels the attempt of a CSIAddonsNode, and drops its result.
func (a *attempts) forget(name types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := a.known[name]; found != nil {
		found.cancel()
		delete(a.known, name)
	}
}

// stop cancels all attempts when ctx is done, and waits for their end.
func (a *attempts) stop(ctx context.Context) error {
	<-ctx.Done()
	a.mu.Lock()
	a.stopping = true
	for _, one := range a.known {
		one.cancel()
	}
	a.mu.Unlock()
	a.ended.Wait()
	return nil
}
