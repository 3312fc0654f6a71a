package fence

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// verifyInterval is the time after which a fence is verified: somebody may have given clients
	// access again, which the controller does not see. If it could not start for maxOverdue, it has a
	// turn after fences that take too long. The status of a fence says if nobody has verified it for
	// maxUnverified.
	verifyInterval, maxOverdue, maxUnverified = 10 * time.Minute, 20 * time.Minute, 30 * time.Minute
	// maxLate is how many calls in a row may take too long until the status says so, and others of the
	// driver get a turn.
	maxLate = 3
	// maxCanceling is how many retries of a fence cancel a verification.
	maxCanceling = 3
)

// state is what the controller remembers of a driver between two decisions.
type state struct {
	driver string
	turns  map[types.UID]*turn
	// running is the call that runs, or whose result is not collected.
	running *call
	// obstacle is why the last call could not start.
	obstacle error
	// unfenceAfter is when a fence may end after a verification was canceled: the driver may still
	// work on that call. It is zero as soon as another call has ended.
	unfenceAfter time.Time
}

// turn is when a NetworkFence is called next. Another generation, or other parameters, begin a new
// turn, so a late result changes nothing.
type turn struct {
	// of is what the turn is about: see task.about.
	of   string
	kind kind
	// since is when the call is needed, and next when it may start.
	since, next time.Time
	// failures are consecutive failures, and late consecutive calls that took too long.
	failures, late int
	// alone means that a call with others has failed.
	alone bool
	// unwritten is what a call has resulted in, until the status contains it.
	unwritten *outcome
}

// kind is the kind of a call.
type kind int

const (
	fences kind = iota
	unfences
	verifies
)

// kindOf returns what a NetworkFence needs. The end of a fence that is settled needs nothing.
func kindOf(f *v1alpha1.NetworkFence) kind {
	switch {
	case f.Spec.FenceState == v1alpha1.Unfenced:
		return unfences
	case settled(f):
		return verifies
	default:
		return fences
	}
}

// task is a NetworkFence that is not settled, or that holds.
type task struct {
	*turn

	fence  *v1alpha1.NetworkFence
	driver string
	// request is what to send, done is the outcome of its success, and problem is why nothing can be
	// sent.
	request *wire.NetworkFenceRequest
	done    outcome
	problem error
	// verified is when a fence that holds was last verified.
	verified time.Time
}

// group is equal for NetworkFences with the same parameters and Secret.
func (t *task) group() string {
	return fmt.Sprint(t.request.GetParameters(), t.request.GetSecretNamespace(), "/",
		t.request.GetSecretName())
}

func (t *task) about() string { return fmt.Sprint(t.fence.Generation, " ", t.group()) }

// turnOf returns the turn of a NetworkFence, which is a new one unless the previous one fits.
func (s *state) turnOf(t *task, now time.Time) *turn {
	old, needed := s.turns[t.fence.UID], kindOf(t.fence)
	if old != nil && old.of == t.about() && (old.kind == needed || old.unwritten != nil) {
		return old
	}
	return &turn{of: t.about(), kind: needed, since: now, next: now}
}

// overdue returns whether a verification could not start for too long.
func (t *task) overdue(now time.Time) bool {
	return t.kind == verifies && now.Sub(t.since) >= maxOverdue
}

// rank returns which calls come first. A fence that takes very long takes turns with the ends of
// fences and with verifications that are overdue.
func (t *task) rank(now time.Time) kind {
	switch {
	case t.kind == fences && t.late < maxLate:
		return fences
	case t.kind != verifies || t.overdue(now):
		return unfences
	default:
		return verifies
	}
}

// decision is what a controller does next, in this order.
type decision struct {
	// results are what ended calls have resulted in. If all can be written, the rest belongs to the
	// next decision, which knows what they mean.
	results, writes []write
	// cancel means that the running verification ends.
	cancel bool
	start  *call
	// waits are written after the start of a call.
	waits []write
}

// write is what the status of a NetworkFence says next.
type write struct {
	*task
	outcome
}

// decide decides what to do about the NetworkFences of a driver. It changes nothing.
func (s *state) decide(tasks []*task, now time.Time) (chosen decision) {
	var able []*task
	for _, t := range tasks {
		switch {
		case t.unwritten != nil:
			chosen.results = append(chosen.results, write{t, *t.unwritten})
			continue
		case s.running.contains(t):
			continue
		case t.kind == verifies && now.Sub(t.verified) >= maxUnverified && unverified(t.fence) == nil:
			chosen.writes = append(chosen.writes, write{t, t.expired(s.obstacle)})
		}
		switch {
		case t.callable():
			able = append(able, t)
		case t.problem == nil:
			chosen.writes = append(chosen.writes, write{t, t.done})
		case t.kind != verifies: // otherwise the fence holds
			chosen.writes = append(chosen.writes, write{t, describe(t.problem)})
		}
	}
	slices.SortStableFunc(able, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.rank(now), b.rank(now)), a.next.Compare(b.next))
	})
	if s.running == nil {
		chosen.start = s.choose(able, now)
	}
	chosen.cancel = slices.ContainsFunc(able, func(t *task) bool { return s.cancels(t, now) })
	for _, t := range able {
		if !chosen.cancel && outdated(t.fence) && !chosen.start.contains(t) {
			chosen.waits = append(chosen.waits, write{t, pending(t.fence, ReasonWaiting,
				"The driver has a call for another NetworkFence")})
		}
	}
	return chosen
}

// callable returns whether a call can do something about a NetworkFence.
func (t *task) callable() bool { return t.problem == nil && len(t.request.GetCidrs()) > 0 }

// due returns when a NetworkFence needs a call.
func (s *state) due(t *task) time.Time {
	if t.kind == unfences && t.next.Before(s.unfenceAfter) {
		return s.unfenceAfter
	}
	return t.next
}

// cancels returns whether a fence ends the running verification: its first call always, some
// retries unless the verification is overdue.
func (s *state) cancels(t *task, now time.Time) bool {
	running := s.running
	if running == nil || running.kind != verifies || running.canceled || t.kind != fences ||
		t.next.After(now) {
		return false
	}
	if t.failures == 0 && t.late == 0 {
		return true
	}
	return t.failures <= maxCanceling && t.late < maxLate &&
		!slices.ContainsFunc(running.tasks, func(t *task) bool { return t.overdue(now) })
}

// choose returns the next call, or nil if none is due: of the first task that is due, and of those
// with the same parameters and Secret. A verification includes all of them, so that it is one call
// for all. No call ends the fence of CIDRs that another NetworkFence fences, or whose fence has
// ended.
func (s *state) choose(able []*task, now time.Time) *call {
	var c *call
	for _, t := range able {
		due := !s.due(t).After(now)
		switch {
		case due && c == nil:
			c = &call{
				kind: t.kind, tasks: []*task{t}, ended: make(chan result, 1),
				request: proto.CloneOf(t.request),
			}
		case c == nil, c.tasks[0].alone, t.alone, t.kind != c.kind, !due && t.kind != verifies,
			t.group() != c.tasks[0].group():
		default:
			more := slices.DeleteFunc(slices.Clone(t.request.GetCidrs()),
				func(cidr string) bool { return slices.Contains(c.request.GetCidrs(), cidr) })
			if len(c.request.GetCidrs())+len(more) <= maxCIDRs {
				c.tasks, c.request.Cidrs = append(c.tasks, t), append(c.request.Cidrs, more...)
			}
		}
	}
	return c
}

// started returns what the status says while a call runs. After many calls, the status goes on to
// say how far the last one was.
func (t *task) started(leader *connection.Sidecar) outcome {
	if t.late >= maxLate {
		return pending(t.fence, ReasonRetrying, t.fence.Status.Message)
	}
	return pending(t.fence, ReasonStarted, fmt.Sprintf("Pod %s changes the access of the clients: %s",
		leader.Pod.Name, t.fence.Spec.FenceState))
}
