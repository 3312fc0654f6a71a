package openstack

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// The delay before the first retry of a refused login, and the longest. It doubles in between.
const (
	firstDelay = time.Minute
	maxDelay   = 15 * time.Minute
)

// Backoff delays logins after the identity service refused one, because clouds lock a user out
// after several logins with a wrong password. All Clients of a process share one. New credentials
// are tried once without a delay, and a refusal of them makes the delay longer. A login without a
// response does not count as refused.
type Backoff struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// logins contains all credentials that were used: people change them rarely.
	logins map[Fingerprint]*attempt
	delay  time.Duration
	until  time.Time
}

// attempt is the last login with certain credentials.
type attempt struct {
	// busy contains one element while a login runs.
	busy chan struct{}
	err  error // nil if the login was not refused
}

// NewBackoff returns a Backoff without a refused login.
func NewBackoff(c clock.PassiveClock) *Backoff {
	return &Backoff{clock: c, logins: map[Fingerprint]*attempt{}}
}

// login logs in. While a refused login is delayed, it returns the error of that login. Logins with
// the same credentials run one after the other.
func (b *Backoff) login(ctx context.Context, a Access) (*session, error) {
	last := b.of(a.credentials())
	select {
	case last.busy <- struct{}{}:
		defer func() { <-last.busy }()
	case <-ctx.Done():
		return nil, unreachable(identityService, a.AuthURL, ctx.Err())
	}
	if err := b.refusal(last); err != nil {
		return nil, err
	}
	session, err := login(ctx, a)
	b.record(last, err)
	return session, err
}

// refuse records that the identity service refused to renew a token. If another login with the same
// credentials runs, the result of that login counts.
func (b *Backoff) refuse(a Access, err error) {
	last := b.of(a.credentials())
	select {
	case last.busy <- struct{}{}:
		b.record(last, err)
		<-last.busy
	default:
	}
}

func (b *Backoff) of(f Fingerprint) *attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.logins[f] == nil {
		b.logins[f] = &attempt{busy: make(chan struct{}, 1)}
	}
	return b.logins[f]
}

// refusal returns the error of a login that was refused, until the delay has passed.
func (b *Backoff) refusal(last *attempt) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clock.Now().Before(b.until) {
		return last.err
	}
	return nil
}

func (b *Backoff) record(last *attempt, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.delay, last.err = 0, nil
	case ReasonOf(err) == AuthenticationFailed:
		b.delay = max(firstDelay, min(2*b.delay, maxDelay))
		b.until, last.err = b.clock.Now().Add(b.delay), err
	}
}
