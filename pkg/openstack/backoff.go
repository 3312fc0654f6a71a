package openstack

import (
	"crypto/sha256"
	"time"
)

// The delay before the first retry of a refused login, and the longest delay. It doubles in
// between.
const (
	firstDelay = time.Minute
	maxDelay   = 15 * time.Minute
)

// loginBackoff delays the retry of a login that the identity service refused. The zero value delays
// nothing. A login without a response does not count as refused.
type loginBackoff struct {
	fingerprint [sha256.Size]byte
	err         error
	delay       time.Duration
	until       time.Time
}

// active returns the error of the refused login while a login with the same credentials is delayed.
// Other credentials are never delayed.
func (b loginBackoff) active(fingerprint [sha256.Size]byte, now time.Time) error {
	if b.err == nil || b.fingerprint != fingerprint || !now.Before(b.until) {
		return nil
	}
	return b.err
}

// next returns the back-off after one more refused login.
func (b loginBackoff) next(fingerprint [sha256.Size]byte, err error, now time.Time) loginBackoff {
	delay := firstDelay
	if b.err != nil && b.fingerprint == fingerprint {
		delay = min(2*b.delay, maxDelay)
	}
	return loginBackoff{fingerprint, err, delay, now.Add(delay)}
}
