package sidecar

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

var errLostLease = errors.New("the pod lost the Lease")

// term is a period during which this pod is the leader. election.mu protects until and timer.
type term struct {
	ended  context.Context // done when the term ends; the cause is errLostLease
	cancel context.CancelCauseFunc
	until  time.Time
	timer  *time.Timer
}

func newTerm() *term {
	t := &term{}
	//nolint:forbidigo // a term outlives the request that begins it
	t.ended, t.cancel = context.WithCancelCause(context.Background())
	return t
}

// over returns whether the end of the term has passed by the monotonic clock, or by the wall clock:
// the monotonic clock stops while a machine sleeps.
func (t *term) over(now time.Time) bool {
	return !now.Before(t.until) || !now.Round(0).Before(t.until.Round(0))
}

// bind returns a context that ends with the term too. The cause is then errLostLease.
func (t *term) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ended, func() { cancel(context.Cause(t.ended)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// observedLock tells an election what the requests for its Lease show.
type observedLock struct {
	resourcelock.Interface

	election *election
}

// Get returns who holds the Lease.
func (l observedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.election.observe(record.HolderIdentity)
	}
	return record, raw, err
}

// Create begins a term.
func (l observedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.hold(func() error { return l.Interface.Create(ctx, record) })
}

// Update begins or extends a term.
func (l observedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.hold(func() error { return l.Interface.Update(ctx, record) })
}

// hold counts the term from the time before the request: the API server may answer late.
func (l observedLock) hold(request func() error) error {
	since := time.Now()
	err := request()
	if err == nil {
		l.election.renewed(since)
	}
	return err
}
