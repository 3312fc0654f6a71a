package simulator

import (
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
	// Status answers with Fault.Status and the service's usual error body.
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

// The modes of faults about connections. They hit all services behind a listener, and open
// connections are dropped when one is set.
const (
	// ResetConnect resets every new connection before a byte is read.
	ResetConnect Mode = "reset-connect"
	// Unreachable refuses connections; the port stays reserved and serves again when the fault is
	// cleared.
	Unreachable Mode = "unreachable"
	// BadCertificate presents the certificate named by Fault.Certificate. It needs Config.TLS.
	BadCertificate Mode = "bad-certificate"
)

// Modes lists all modes.
func Modes() []Mode {
	return []Mode{
		Hang, Slow, Reset, Status, Garbage, Truncated, EmptyCatalog, Foreign, ResetConnect, Unreachable,
		BadCertificate,
	}
}

// Fault is a failure that is switched on with Client.SetFault. Faults that match one request are
// applied in the order in which they were set, until one of them decides the answer: a slow 503 is
// two faults.
type Fault struct {
	// ID is given by the simulator.
	ID string `json:"id,omitempty"`
	// Mode is the kind of the fault.
	Mode Mode `json:"mode"`
	// Service it hits; empty or "all" is every service.
	Service Service `json:"service,omitempty"`
	// PathPrefix limits a request fault to URL paths (such as /share/v2/types) that start with it.
	PathPrefix string `json:"pathPrefix,omitempty"`
	// Method limits a request fault to one HTTP method.
	Method string `json:"method,omitempty"`
	// Times is how many requests (or connections, for reset-connect) it hits; 0 is no limit.
	Times int `json:"times,omitempty"`
	// Delay of mode slow.
	Delay time.Duration `json:"delay,omitempty"`
	// Status of mode status, 400 to 599.
	Status int `json:"status,omitempty"`
	// Answer of mode foreign.
	Answer *Answer `json:"answer,omitempty"`
	// Certificate of mode bad-certificate, WrongHost if empty.
	Certificate Certificate `json:"certificate,omitempty"`
	// Hits is how often it struck so far; set by the simulator.
	Hits int `json:"hits"`
}

// connection returns whether the fault is about connections rather than requests.
func (f Fault) connection() bool {
	return f.Mode == ResetConnect || f.Mode == Unreachable || f.Mode == BadCertificate
}

// decisive returns whether no later fault has an effect after this one.
func (f Fault) decisive() bool { return f.Mode != Slow && f.Mode != Hang && f.Mode != EmptyCatalog }

// hits returns whether the fault is for the service.
func (f Fault) hits(service Service) bool { return f.Service == "" || f.Service == service }

// exhausted returns whether the fault has reached its number of hits.
func (f Fault) exhausted() bool { return f.Times > 0 && f.Hits >= f.Times }

// normalise sets defaults and refuses invalid combinations.
func (f Fault) normalise(tls bool) (Fault, error) {
	if f.Service == "all" {
		f.Service = ""
	}
	f.Method, f.Hits = strings.ToUpper(f.Method), 0
	switch {
	case !slices.Contains(Modes(), f.Mode):
		return f, fmt.Errorf("unknown mode %q, want one of %v", f.Mode, Modes())
	case f.Service != "" && !known(f.Service):
		return f, fmt.Errorf("unknown service %q, want one of %v or all", f.Service, Services())
	case f.Times < 0:
		return f, fmt.Errorf("times %d is negative", f.Times)
	case f.connection() && (f.PathPrefix != "" || f.Method != ""):
		return f, fmt.Errorf("mode %s is about connections and takes neither path prefix nor method",
			f.Mode)
	case f.connection() && f.Mode != ResetConnect && f.Times != 0:
		return f, fmt.Errorf("mode %s takes no number of times: it lasts until cleared", f.Mode)
	}
	return f.normaliseMode(tls)
}

// normaliseMode checks the fields that belong to one mode only.
func (f Fault) normaliseMode(tls bool) (Fault, error) {
	switch {
	case (f.Mode == Slow) != (f.Delay > 0):
		return f, fmt.Errorf("mode %s with delay %s: mode slow, and no other, takes a positive delay",
			f.Mode, f.Delay)
	case (f.Mode == Status) != (f.Status != 0):
		return f, fmt.Errorf("mode %s with status %d: mode status, and no other, takes a status",
			f.Mode, f.Status)
	case f.Mode == Status && (f.Status < http.StatusBadRequest || f.Status > 599):
		return f, fmt.Errorf("status %d is not an error, want 400 to 599", f.Status)
	case (f.Mode == Foreign) != (f.Answer != nil):
		return f, fmt.Errorf("mode %s: mode foreign, and no other, takes an answer", f.Mode)
	case f.Mode != BadCertificate && f.Certificate != "":
		return f, fmt.Errorf("mode %s takes no certificate", f.Mode)
	case f.Mode == BadCertificate && !tls:
		return f, fmt.Errorf("mode %s needs a simulator that serves TLS", f.Mode)
	}
	if f.Mode == BadCertificate {
		setDefault(&f.Certificate, WrongHost)
		if !slices.Contains(badCertificates(), f.Certificate) {
			return f, fmt.Errorf("unknown certificate %q, want one of %v", f.Certificate, badCertificates())
		}
	}
	return f, nil
}

// activeFault is a fault that is switched on. Exhausted ones stay until cleared: they may still
// hold requests.
type activeFault struct {
	Fault
	cleared chan struct{}
}

// faultSet is the list of faults that are switched on.
type faultSet struct {
	mu     sync.Mutex
	last   int
	active []*activeFault
}

// add switches a fault on and returns it with its ID.
func (s *faultSet) add(fault Fault) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	fault.ID = "fault-" + strconv.Itoa(s.last)
	s.active = append(s.active, &activeFault{Fault: fault, cleared: make(chan struct{})})
	return fault
}

// clear switches off the faults with the given IDs, or all, and releases the requests they hold.
func (s *faultSet) clear(ids ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if !slices.ContainsFunc(s.active, func(f *activeFault) bool { return f.ID == id }) {
			return fmt.Errorf("fault %q does not exist", id)
		}
	}
	s.active = slices.DeleteFunc(s.active, func(f *activeFault) bool {
		gone := len(ids) == 0 || slices.Contains(ids, f.ID)
		if gone {
			close(f.cleared)
		}
		return gone
	})
	return nil
}

// list returns the faults in the order in which they were set.
func (s *faultSet) list() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	faults := make([]Fault, 0, len(s.active))
	for _, fault := range s.active {
		faults = append(faults, fault.Fault)
	}
	return faults
}

// strike counts and returns the faults that a request meets.
func (s *faultSet) strike(c *call) []*activeFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var struck []*activeFault
	for _, fault := range s.active {
		if fault.connection() || !fault.hits(c.service) || fault.exhausted() ||
			!strings.HasPrefix(c.urlPath, fault.PathPrefix) ||
			(fault.Method != "" && fault.Method != c.method) {
			continue
		}
		fault.Hits++
		struck = append(struck, fault)
		if fault.decisive() {
			break
		}
	}
	return struck
}

// connection returns the first fault of a mode for any of a listener's services, and counts it if
// it strikes.
func (s *faultSet) connection(mode Mode, services []Service, strikes bool) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fault := range s.active {
		if fault.Mode != mode || fault.exhausted() || !slices.ContainsFunc(services, fault.hits) {
			continue
		}
		if strikes {
			fault.Hits++
		}
		return fault.Fault, true
	}
	return Fault{}, false
}
