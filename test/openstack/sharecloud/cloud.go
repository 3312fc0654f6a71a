// Package sharecloud is a Manila in memory without HTTP, for tests of fences with a simulated clock
// (testing/synctest): no goroutine waits in it, except those of requests. It refuses access rules
// as package sharestate says, as the simulator does.
//
//	cloud := sharecloud.New(sharecloud.Config{RequestTime: 300 * time.Millisecond})
//	id := cloud.Create(sharecloud.Share{Backend: "a", Rules: []string{"rw 0.0.0.0/0"}})
//	cloud.Kill("a")            // rules stay queued
//	cloud.Become(id, "extending", time.Minute)
//	manila.NewController(manila.Config{Connect: ...cloud.Shares("")...})
//	level, found := cloud.Access(id, netip.MustParseAddr("10.0.0.5"))
package sharecloud

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/test/openstack/sharestate"
)

// Config is how a cloud answers.
type Config struct {
	// RequestTime is the time of each request, and of each page of a list.
	RequestTime time.Duration
	// ApplyTime is the time in which a backend applies the queued rules of one share.
	ApplyTime time.Duration
	// Fault returns what is wrong with a request; nil means nothing. It may call methods of the
	// cloud.
	Fault func(Call) Fault
}

// Call is a request.
type Call struct {
	// Method is that of manila.Shares, such as Grant.
	Method string
	// ShareID and Backend are empty for a list.
	ShareID, Backend string
	// Number counts the requests to the cloud from 1.
	Number int
}

// Fault is what is wrong with a request. The zero value is nothing.
type Fault struct {
	// Delay is added to the time of the request.
	Delay time.Duration
	// Err is returned instead of the answer. The request has no effect, unless Lost is set: then only
	// the answer is lost.
	Err  error
	Lost bool
}

// Share describes a new share. Empty fields have the values of a usual one.
type Share struct {
	ID, Project, Backend, Protocol string
	Metadata                       map[string]string
	// Rules are active rules, such as "rw 0.0.0.0/0".
	Rules []string
}

// Cloud is a Manila. New creates it. All methods are safe for concurrent use.
type Cloud struct {
	config Config

	mu       sync.Mutex
	shares   map[string]*share
	dead     map[string]bool
	failing  map[string]bool
	requests int
	ids      int
}

type share struct {
	sharestate.Access
	Share

	status string
	// until is when a status of Become ends. queued is the time of the last request about rules, and
	// ready when the rules in progress are complete.
	until, queued, ready time.Time
}

// New returns a cloud without shares.
func New(config Config) *Cloud {
	return &Cloud{
		config: config, shares: map[string]*share{}, dead: map[string]bool{},
		failing: map[string]bool{},
	}
}

// Create adds a share that is available, and returns its ID.
func (c *Cloud) Create(wanted Share) (id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted.ID = cmp.Or(wanted.ID, c.newID())
	wanted.Protocol = cmp.Or(wanted.Protocol, "NFS")
	metadata := map[string]string{}
	maps.Copy(metadata, wanted.Metadata)
	wanted.Metadata = metadata
	s := &share{Share: wanted, status: sharestate.Available}
	c.shares[wanted.ID] = s
	for _, text := range wanted.Rules {
		c.allow(s, text)
	}
	s.Begin()
	s.Complete(false, time.Now())
	return wanted.ID
}

// newID returns an ID in the form of those of Manila.
func (c *Cloud) newID() string {
	c.ids++
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", c.ids)
}

func (c *Cloud) allow(s *share, text string) {
	rule := &sharestate.Rule{ID: c.newID(), Type: "ip", Level: text[:2], To: text[3:]}
	_ = s.Allow(s.state(), rule) // what it refuses is not there
	s.queued = time.Now()
}

func (s *share) state() sharestate.Share { return sharestate.Share{ID: s.ID, Status: s.status} }

// with calls work with a share at its present state, unless the share does not exist.
func (c *Cloud) with(id string, work func(*share)) (found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(id)
	if s != nil {
		work(s)
	}
	return s != nil
}

// find returns a share at its present state, or nil.
func (c *Cloud) find(id string) *share {
	if s := c.shares[id]; s != nil {
		c.settle(s)
	}
	return c.shares[id]
}

// Allow adds an access rule such as "rw 0.0.0.0/0", as a user does. It is queued.
func (c *Cloud) Allow(id, rule string) { c.with(id, func(s *share) { c.allow(s, rule) }) }

// Delete begins to delete a share. It is gone when its backend has removed its rules.
func (c *Cloud) Delete(id string) {
	c.with(id, func(s *share) {
		s.status, s.until, s.queued = sharestate.Deleting, time.Time{}, time.Now()
		s.DenyAll()
	})
}

// Become changes the status of a share, and that of its copies, for some time. After it the share
// is available and has no copies. 0 means for ever.
func (c *Cloud) Become(id, status string, duration time.Duration, copies ...string) {
	c.with(id, func(s *share) {
		s.status, s.Copies, s.until = status, copies, time.Time{}
		if duration > 0 {
			s.until = time.Now().Add(duration)
		}
	})
}

// Recycle moves a share into the recycle bin, or restores it.
func (c *Cloud) Recycle(id string, deleted bool) {
	c.with(id, func(s *share) { s.SoftDeleted = deleted })
}

// Kill ends the manager of a backend: rules stay as they are.
func (c *Cloud) Kill(backend string) { c.restart(backend, true) }

// Revive starts the manager of a backend, which applies the queued rules.
func (c *Cloud) Revive(backend string) { c.restart(backend, false) }

func (c *Cloud) restart(backend string, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shares {
		if s.Backend == backend {
			c.settle(s)
			s.Interrupt()
			s.queued = time.Now()
		}
	}
	c.dead[backend] = dead
}

// Break makes the backend refuse all rules that it applies from now on, or ends that.
func (c *Cloud) Break(backend string, failing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing[backend] = failing
}

// Access returns what a client may do with a share, "rw", "ro" or "", and whether the share exists.
func (c *Cloud) Access(id string, client netip.Addr) (level string, found bool) {
	found = c.with(id, func(s *share) { level = s.Level(client) })
	return level, found
}

// Rules returns the access rules of a share in any state.
func (c *Cloud) Rules(id string) (rules []shares.AccessRule) {
	c.with(id, func(s *share) { rules = s.rules() })
	return rules
}

// Metadata returns the metadata of a share.
func (c *Cloud) Metadata(id string) (found map[string]string) {
	c.with(id, func(s *share) { found = maps.Clone(s.Metadata) })
	return found
}

// Requests returns the number of requests since the start.
func (c *Cloud) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// settle performs what has happened to a share until now.
func (c *Cloud) settle(s *share) {
	now := time.Now()
	if !s.until.IsZero() && !now.Before(s.until) {
		s.status, s.Copies, s.until = sharestate.Available, nil, time.Time{}
	}
	for !c.dead[s.Backend] {
		switch {
		case s.Busy() && now.Before(s.ready):
			return
		case s.Busy():
			s.Complete(c.failing[s.Backend], s.ready)
		case s.Begin():
			begin := s.queued
			if s.ready.After(begin) {
				begin = s.ready
			}
			s.ready = begin.Add(c.config.ApplyTime)
		default:
			if s.status == sharestate.Deleting && len(s.Access.Rules) == 0 {
				delete(c.shares, s.ID)
			}
			return
		}
	}
}
