package openstack

import (
	"crypto/sha256"
	"time"
)

// How long credentials wait after a refused login: the first time, and at most. The wait doubles in between.
const (
	firstWait = time.Minute
	maxWait   = 15 * time.Minute
)

// refusal is a login that the identity service refused, and until when the same login is not tried again. The zero value
// refuses nothing. A login that got no answer is none.
type refusal struct {
	fingerprint [sha256.Size]byte
	err         error
	wait        time.Duration
	until       time.Time
}

// lasting returns the error of the refused login while the same credentials have to wait. Other credentials do not wait.
func (r refusal) lasting(fingerprint [sha256.Size]byte, now time.Time) error {
	if r.err == nil || r.fingerprint != fingerprint || !now.Before(r.until) {
		return nil
	}
	return r.err
}

// again returns what to remember of one more refusal.
func (r refusal) again(fingerprint [sha256.Size]byte, err error, now time.Time) refusal {
	wait := firstWait
	if r.err != nil && r.fingerprint == fingerprint {
		wait = min(2*r.wait, maxWait)
	}
	return refusal{fingerprint, err, wait, now.Add(wait)}
}
