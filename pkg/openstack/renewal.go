package openstack

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// errNotRenewed means that the session sent no login after a service refused its token.
var errNotRenewed = errors.New("the token is new")

// renewal is the last renewal of a token. If the first answer to the new token is "401" too, the
// token is not the reason: an access rule is missing, or the service cannot verify tokens. Each
// poll would then send one more login. So further logins wait as those that Keystone refused: 1
// min, then twice as long, up to 15 min. Requests are still sent, with the token of the session.
type renewal struct {
	mu      sync.Mutex
	token   string
	at      time.Time
	useless bool
	delay   time.Duration
}

// mayRepeat returns whether another renewal may succeed.
func (r *renewal) mayRepeat(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.useless || !now.Before(r.at.Add(r.delay))
}

// begin records a new token.
func (r *renewal) begin(token string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.useless {
		r.delay = min(2*r.delay, maxDelay)
	} else {
		r.delay = firstDelay
	}
	r.token, r.at, r.useless = token, now, false
}

// observe evaluates the status of the answer to a request with a token, which a login lacks.
func (r *renewal) observe(token string, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token != "" && token == r.token {
		r.token, r.useless = "", status == http.StatusUnauthorized
	}
}
