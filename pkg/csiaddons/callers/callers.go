// Package callers limits what the clients of a server can cause before the server knows who they
// are.
package callers

import (
	"net"
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// ipv6Bits is the length of the prefix of IPv6 addresses that one machine can use.
const ipv6Bits = 64

// Limits limits the rate of something for each network of clients. It is safe for concurrent use.
type Limits struct {
	rate  rate.Limit
	burst int

	mu    sync.Mutex
	known *lru.Cache // *rate.Limiter by network
}

// New returns limits for each network: a rate per second after a burst. It remembers the networks
// that have been used last.
func New(perSecond rate.Limit, burst, networks int) *Limits {
	return &Limits{rate: perSecond, burst: burst, known: lru.New(networks)}
}

// Allow returns whether the network of an address may do the limited thing now.
func (l *Limits) Allow(address string) bool {
	network := Network(address)
	l.mu.Lock()
	defer l.mu.Unlock()
	found, ok := l.known.Get(network)
	if !ok {
		found = rate.NewLimiter(l.rate, l.burst)
		l.known.Add(network, found)
	}
	return found.(*rate.Limiter).Allow()
}

// Network returns the network of an address with or without a port: an IPv4 address, or the first
// 64 bits of an IPv6 address. It returns "" for something else, such as the name of a socket.
func Network(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, ipv6Bits).Masked().String()
}
