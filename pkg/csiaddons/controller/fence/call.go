package fence

import (
	"context"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// callTimeout limits one call of a driver. One that ends less than callMargin earlier took too
	// long: a driver may answer before the deadline, to say how far it is.
	callTimeout, callMargin = 15 * time.Minute, 10 * time.Second
	// firstRetry and maxRetry are the times until the next call after failures, and leaderInterval is
	// that after an attempt without a connection to the leader of the driver. With the requests of the
	// next attempt it is less than the promised 5 s.
	firstRetry, maxRetry = 5 * time.Second, 5 * time.Minute
	leaderInterval       = 4 * time.Second
	// serverRetry is the time until the next attempt after an error of the API server.
	serverRetry = 2 * time.Second
	// callInterval is the shortest time between two decisions.
	callInterval = 100 * time.Millisecond
	// ReasonRepaired is the reason of the event that a verification has revoked access again.
	ReasonRepaired = "FenceRepaired"
)

// call is a call of a driver. Its tasks are those of the decision that has started it.
type call struct {
	kind    kind
	tasks   []*task
	request *wire.NetworkFenceRequest
	began   time.Time

	cancel   context.CancelFunc
	canceled bool
	// ended receives the result.
	ended chan result
}

// result is what became of a call.
type result struct {
	// at is when it has ended. The API server may not answer for some time after it.
	at  time.Time
	err error
	// late means that the call took too long.
	late bool
	// changed is how many shares a fence has changed, according to the driver.
	changed string
}

// contains returns whether the call is about the same spec of a NetworkFence.
func (c *call) contains(t *task) bool {
	return c != nil && slices.ContainsFunc(c.tasks, func(one *task) bool { return one.turn == t.turn })
}

func (r *Reconciler) send(ctx context.Context, driver string, to *connection.Sidecar, c *call,
) result {
	method := wire.FenceClusterNetwork
	if c.kind == unfences {
		method = wire.UnFenceClusterNetwork
	}
	var trailer metadata.MD
	_, err := method.Call(ctx, to.Connection, c.request, grpc.Trailer(&trailer))
	code, at := status.Code(err), r.Clock.Now()
	took := at.Sub(c.began)
	r.Metrics.Ended(driver, method.Name(), code.String(), took)
	ended := result{at: at, err: err}
	ended.late = code == codes.DeadlineExceeded && took > callTimeout-callMargin
	if texts := trailer.Get(wire.ChangedSharesTrailer); len(texts) > 0 {
		ended.changed = texts[0]
	}
	return ended
}

// settle applies a result to the turns of a call, and returns whether the call was successful.
func (s *state) settle(c *call, ended result) bool {
	s.unfenceAfter = time.Time{}
	switch {
	case ended.err == nil:
		for _, t := range c.tasks {
			t.succeed(ended.at)
		}
	case c.canceled: // the next verification repeats it
		s.unfenceAfter = ended.at.Add(callTimeout)
	case ended.late:
		for _, t := range c.tasks {
			t.next = ended.at // a driver of many shares continues where it was
			if t.late++; t.late >= maxLate {
				t.report(ended.err)
			}
		}
	default:
		c.blame(ended.err, ended.at)
	}
	return ended.err == nil
}

// succeed notes that a NetworkFence is done, or that it waits for the end of another one.
func (t *task) succeed(now time.Time) {
	if t.kind == verifies {
		t.done = holds(t.fence)
	}
	later := now.Add(verifyInterval)
	next := turn{of: t.of, kind: verifies, since: later, next: later, unwritten: &t.done}
	if t.kind == unfences {
		next.kind, next.next = unfences, now
	}
	*t.turn = next
}

// blame finds the NetworkFences that are the reason why a call has failed. If the driver does not
// name their CIDRs, each is called alone, unless the error is about the driver or its sidecar.
func (c *call) blame(err error, now time.Time) {
	refused := slices.DeleteFunc(refusedCIDRs(err),
		func(cidr string) bool { return !slices.Contains(c.request.GetCidrs(), cidr) })
	all := len(c.tasks) == 1 || len(refused) == 0 && !mayBeAboutCIDRs(status.Code(err))
	for _, t := range c.tasks {
		named := slices.ContainsFunc(t.request.GetCidrs(),
			func(cidr string) bool { return slices.Contains(refused, cidr) })
		if all || named {
			t.retry(now, delayOf(err))
			t.report(err)
		} else { // it has its turn at once
			t.alone = len(refused) == 0
		}
	}
}

// mayBeAboutCIDRs returns whether drivers use a code for an error about some of the CIDRs. Others
// are about the driver, the cloud or the sidecar, so each NetworkFence alone would fail, too.
func mayBeAboutCIDRs(code codes.Code) bool {
	about := []codes.Code{codes.InvalidArgument, codes.OutOfRange, codes.Internal, codes.Unknown}
	return slices.Contains(about, code)
}

// refusedCIDRs returns the CIDRs that a driver names in an error, as the adapter of Manila does.
func refusedCIDRs(err error) (found []string) {
	for _, detail := range status.Convert(err).Details() {
		if request, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range request.GetFieldViolations() {
				found = append(found, violation.GetField())
			}
		}
	}
	return found
}

// report notes an error for the status. A fence whose verification has failed may not hold, so it
// is called as a new one.
func (t *task) report(err error) {
	if t.kind == verifies {
		t.kind = fences
	}
	failed := describe(err)
	t.unwritten = &failed
}

// delayOf returns when a driver or its sidecar wants to be called again, or 0 if it does not say.
func delayOf(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return min(max(info.GetRetryDelay().AsDuration(), firstRetry), maxRetry)
		}
	}
	return 0
}

// retry delays the next call more after each failure, unless the driver says when to try again.
func (t *turn) retry(now time.Time, delay time.Duration) {
	if delay == 0 {
		delay = firstRetry
		for range t.failures {
			delay = min(2*delay, maxRetry)
		}
		t.failures++
	}
	t.late, t.alone, t.next = 0, false, now.Add(delay)
}

// repaired reports that a driver has revoked access since the last verification. The number of
// shares comes from the driver.
func (r *Reconciler) repaired(driver string, c *call, shares string) {
	count, err := strconv.ParseUint(shares, 10, 32)
	if c.kind != verifies || err != nil || count == 0 {
		return
	}
	r.Metrics.Repaired(driver, count)
	for _, t := range c.tasks {
		r.Events.Eventf(t.fence, nil, corev1.EventTypeWarning, ReasonRepaired, actionFence,
			"The driver has revoked the access of fenced clients to %d shares: somebody had changed "+
				"their access rules, or the shares are new", count)
	}
}
