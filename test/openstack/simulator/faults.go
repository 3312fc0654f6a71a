package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Mode is the kind of a fault.
type Mode string

// The modes of faults about requests.
const (
	// Hang holds the request until the client gives up or the fault is cleared. Then the request is
	// handled as usual.
	Hang Mode = "hang"
	// Slow answers after Fault.Delay, or at once when the fault is cleared.
	Slow Mode = "slow"
	// Reset reads the request and resets the TCP connection.
	Reset Mode = "reset"
	// Status answers with Fault.Status and an error body of OpenStack.
	Status Mode = "status"
	// Garbage answers with a success status and a page of HTML.
	Garbage Mode = "garbage"
	// Truncated sends half of the usual answer and closes the connection.
	Truncated Mode = "truncated"
	// EmptyCatalog issues tokens without a catalog entry.
	EmptyCatalog Mode = "empty-catalog"
	// Foreign sends Fault.Answer, like a hostile server.
	Foreign Mode = "foreign"
)

// The modes of faults about operations, such as the creation of a volume, which a service performs
// after its answer. They affect requests other than GET; the answer is the usual one.
const (
	// Fail makes the operation fail: a volume or share gets the error status of that operation, an
	// attachment is not made or not removed.
	Fail Mode = "fail"
	// Stall begins the operation when the fault is cleared.
	Stall Mode = "stall"
)

// The modes of faults about connections. They hit all services behind a listener, and open
// connections are dropped when one is set.
const (
	// ResetConnect resets every new connection before a byte is read.
	ResetConnect Mode = "reset-connect"
	// Unreachable refuses connections; the port stays reserved and serves again after the fault.
	Unreachable Mode = "unreachable"
	// BadCertificate presents the certificate named by Fault.Certificate. It needs Config.TLS.
	BadCertificate Mode = "bad-certificate"
)

func modes() []Mode {
	return []Mode{
		Hang, Slow, Reset, Status, Garbage, Truncated, EmptyCatalog, Foreign, Fail, Stall, ResetConnect,
		Unreachable, BadCertificate,
	}
}

// Fault is a failure of the cloud. Faults that match one request apply in the order in which they
// were set, until one of them decides the answer: a slow 503 is two faults.
type Fault struct {
	// ID is set by the simulator.
	ID string
	// Mode is the kind of the fault.
	Mode Mode
	// Service that it affects; empty is every service.
	Service Service
	// PathPrefix limits a request fault to URL paths (such as /share/v2/types) that start with it.
	PathPrefix string
	// Method limits a request fault to one HTTP method.
	Method string
	// Times is how many requests, or connections for ResetConnect, it affects; 0 is no limit.
	Times int
	// Delay of mode Slow.
	Delay time.Duration
	// Status of mode Status, 400 to 599.
	Status int
	// Answer of mode Foreign.
	Answer *Answer
	// Certificate of mode BadCertificate, WrongHost if empty.
	Certificate Certificate
}

// onConnections returns whether the fault affects connections, not requests.
func (f Fault) onConnections() bool {
	return f.Mode == ResetConnect || f.Mode == Unreachable || f.Mode == BadCertificate
}

// onOperations returns whether the fault affects what a service does after its answer.
func (f Fault) onOperations() bool { return f.Mode == Fail || f.Mode == Stall }

// decides returns whether no later fault has an effect after this one.
func (f Fault) decides() bool {
	return f.Mode != Slow && f.Mode != Hang && f.Mode != EmptyCatalog && !f.onOperations()
}

func (f Fault) affects(services ...Service) bool {
	return f.Service == "" || slices.Contains(services, f.Service)
}

func (f Fault) withDefaults(tls bool) (Fault, error) {
	f.Method = strings.ToUpper(f.Method)
	switch {
	case !slices.Contains(modes(), f.Mode):
		return f, fmt.Errorf("unknown mode %q, want one of %v", f.Mode, modes())
	case f.Service != "" && !slices.Contains(Services(), f.Service):
		return f, fmt.Errorf("unknown service %q, want one of %v", f.Service, Services())
	case f.Mode == Status && (f.Status < http.StatusBadRequest || f.Status > 599):
		return f, fmt.Errorf("status %d is not an error, want 400 to 599", f.Status)
	case f.Mode != BadCertificate:
		return f, nil
	case !tls:
		return f, fmt.Errorf("mode %s needs a simulator that serves TLS", f.Mode)
	}
	f.Certificate = cmp.Or(f.Certificate, WrongHost)
	if bad := []Certificate{WrongHost, OtherCA, Expired}; !slices.Contains(bad, f.Certificate) {
		return f, fmt.Errorf("unknown certificate %q, want one of %v", f.Certificate, bad)
	}
	return f, nil
}

// activeFault is a fault that was set. It stays after its last hit: it may still hold requests.
type activeFault struct {
	Fault
	hits    int
	cleared chan struct{}
}

func (f *activeFault) isOver() bool { return f.Times > 0 && f.hits >= f.Times }

type faultSet struct {
	mu     sync.Mutex
	last   int
	active []*activeFault
}

func (s *faultSet) add(fault Fault) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	fault.ID = "fault-" + strconv.Itoa(s.last)
	s.active = append(s.active, &activeFault{Fault: fault, cleared: make(chan struct{})})
	return fault
}

// clear removes the faults with the given IDs, or all, releases what they hold, and returns them.
func (s *faultSet) clear(ids []string) ([]Fault, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if !slices.ContainsFunc(s.active, func(f *activeFault) bool { return f.ID == id }) {
			return nil, fmt.Errorf("fault %q does not exist", id)
		}
	}
	var cleared []Fault
	s.active = slices.DeleteFunc(s.active, func(f *activeFault) bool {
		if len(ids) > 0 && !slices.Contains(ids, f.ID) {
			return false
		}
		close(f.cleared)
		cleared = append(cleared, f.Fault)
		return true
	})
	return cleared, nil
}

func (s *faultSet) list() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var faults []Fault
	for _, fault := range s.active {
		faults = append(faults, fault.Fault)
	}
	return faults
}

// hit counts and returns the faults that affect a request.
func (s *faultSet) hit(c *call) []*activeFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hit []*activeFault
	for _, fault := range s.active {
		if fault.onConnections() || !fault.affects(c.service) || fault.isOver() ||
			!strings.HasPrefix(c.urlPath, fault.PathPrefix) ||
			(fault.Method != "" && fault.Method != c.method) ||
			(fault.onOperations() && c.method == http.MethodGet) {
			continue
		}
		fault.hits++
		hit = append(hit, fault)
		if fault.decides() {
			break
		}
	}
	return hit
}

// hitConnection counts and returns the first fault of a mode for any of a listener's services.
func (s *faultSet) hitConnection(mode Mode, services []Service) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fault := range s.active {
		if fault.Mode == mode && !fault.isOver() && fault.affects(services...) {
			fault.hits++
			return fault.Fault, true
		}
	}
	return Fault{}, false
}
