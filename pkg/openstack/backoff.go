package openstack

import (
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// The delay before the first retry of a refused login, and the longest delay. It doubles in
// between.
const (
	firstDelay = time.Minute
	maxDelay   = 15 * time.Minute
)

// backoff delays retries of logins that the identity service refused. Clients share it, because the
// same credentials may be in more than one Source. A login without a response does not count as
// refused. Credentials that were not refused are never delayed.
type backoff struct {
	clock  clock.PassiveClock
	mu     sync.Mutex
	logins map[[sha256.Size]byte]*refusals // by fingerprint
}

// refusals are the refused logins with the same credentials.
type refusals struct {
	used time.Time
	// busy contains one element while a login runs, which accesses the fields below.
	busy  chan struct{}
	err   error // nil if the last login was not refused
	delay time.Duration
	until time.Time
}

func newBackoff(c clock.PassiveClock) *backoff {
	return &backoff{clock: c, logins: map[[sha256.Size]byte]*refusals{}}
}

// of returns the refusals of credentials. It forgets credentials that are not in use any more.
func (b *backoff) of(fingerprint [sha256.Size]byte) *refusals {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	maps.DeleteFunc(b.logins, func(_ [sha256.Size]byte, r *refusals) bool {
		return now.Sub(r.used) > 2*maxDelay
	})
	r := b.logins[fingerprint]
	if r == nil {
		r = &refusals{busy: make(chan struct{}, 1)}
		b.logins[fingerprint] = r
	}
	r.used = now
	return r
}

// login logs in. While a refused login is delayed, it returns the error of that login. Logins with
// the same credentials run one after the other.
func (b *backoff) login(ctx context.Context, a *access) (*session, error) {
	r := b.of(a.fingerprint)
	select {
	case r.busy <- struct{}{}:
		defer func() { <-r.busy }()
	case <-ctx.Done():
		return nil, unreachable(identityService, a.cloud.AuthInfo.AuthURL, ctx.Err())
	}
	if r.err != nil && b.clock.Now().Before(r.until) {
		return nil, r.err
	}
	session, err := login(ctx, a)
	if err == nil {
		r.err = nil
	} else if ReasonOf(err) == AuthenticationFailed {
		r.add(err, b.clock.Now())
	}
	return session, err
}

// refuse records that the identity service refused to renew a token. If another login with the same
// credentials runs, the result of that login counts.
func (b *backoff) refuse(fingerprint [sha256.Size]byte, err error) {
	r := b.of(fingerprint)
	select {
	case r.busy <- struct{}{}:
		r.add(err, b.clock.Now())
		<-r.busy
	default:
	}
}

func (r *refusals) add(err error, now time.Time) {
	if r.err == nil {
		r.delay = firstDelay
	} else {
		r.delay = min(2*r.delay, maxDelay)
	}
	r.err, r.until = err, now.Add(r.delay)
}
