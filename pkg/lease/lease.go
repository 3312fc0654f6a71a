// Package lease lets a process write only while it holds the Lease of its leader election. pkg/host
// and pkg/csiaddons/controller call it.
//
// A process that was frozen, for example with its node, first notices that another process leads
// when it has tried to renew the Lease until the deadline. Until then both would write: for 107 s
// with the durations that OpenShift recommends.
package lease

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// ErrExpired is the error of a write without the Lease.
var ErrExpired = errors.New("the Lease has expired: another process may be the leader")

// Guard refuses the writes of a process that has led and does not hold the Lease any more. Before
// it leads, a process writes only events and reviews.
type Guard struct {
	// Duration is how long the Lease is valid without a renewal.
	Duration time.Duration
	// Lost is called with each refused write. It must end the process.
	Lost func()

	mu      sync.Mutex
	renewed time.Time // zero if the process has not led
	lost    bool
}

// Protect returns a configuration with the guard. It must be that of leader election, too: the
// guard sees the renewals of the Lease, the only one that the process writes.
func (g *Guard) Protect(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next, g} })
	return config
}

// isHeld returns false if the process has led and its Lease has expired. If renewed is a time, the
// process has renewed the Lease at this time. A lost Lease stays lost:
// its release, for example, is no renewal. The monotonic clock stands still while a machine is
// suspended, and the wall clock can be set back, so that the later of both counts.
func (g *Guard) isHeld(renewed time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	age := max(now.Sub(g.renewed), now.Round(0).Sub(g.renewed))
	g.lost = g.lost || !g.renewed.IsZero() && age >= g.Duration
	if !g.lost && !renewed.IsZero() {
		g.renewed = renewed
	}
	return !g.lost
}

type transport struct {
	http.RoundTripper

	guard *Guard
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		return t.RoundTripper.RoundTrip(request)
	}
	if strings.Contains(request.URL.Path, "/coordination.k8s.io/") { // not the name of a namespace
		began := time.Now()
		response, err := t.RoundTripper.RoundTrip(request)
		if err == nil && response.StatusCode < http.StatusMultipleChoices {
			t.guard.isHeld(began)
		}
		return response, err
	}
	if t.guard.isHeld(time.Time{}) {
		return t.RoundTripper.RoundTrip(request)
	}
	t.guard.Lost()
	err := ErrExpired
	if request.Body != nil {
		err = errors.Join(err, request.Body.Close())
	}
	return nil, err
}
