package sidecar

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/peer"
	"k8s.io/utils/lru"
)

const (
	// reviewsPerSecond and reviewBurst limit the unknown tokens of one IP address that are checked.
	// The controller sends one unknown token per minute.
	reviewsPerSecond = 1
	reviewBurst      = 20
	// refusalInterval is the time between two log lines about refused calls from one IP address.
	refusalInterval = 10 * time.Second
	// maxPeers is the number of IP addresses to remember.
	maxPeers = 1024
)

// peers limits what each IP address causes.
type peers struct {
	mu      sync.Mutex
	limited *lru.Cache // *limits by IP address
}

// limits are the limits of one IP address.
type limits struct {
	reviews  *rate.Limiter
	refusals *rate.Limiter
}

func newPeers() *peers { return &peers{limited: lru.New(maxPeers)} }

// limitsOf returns the limits of an IP address.
func (p *peers) limitsOf(address string) *limits {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found, ok := p.limited.Get(address); ok {
		return found.(*limits)
	}
	created := &limits{
		reviews:  rate.NewLimiter(reviewsPerSecond, reviewBurst),
		refusals: rate.NewLimiter(rate.Every(refusalInterval), 1),
	}
	p.limited.Add(address, created)
	return created
}

// callerOf returns the IP address of the caller, or "" if it has none.
func callerOf(ctx context.Context) string {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	host, _, err := net.SplitHostPort(caller.Addr.String())
	if err != nil {
		return ""
	}
	return host
}
