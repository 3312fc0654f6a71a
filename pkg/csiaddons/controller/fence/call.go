package fence

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// callTimeout limits one call of a driver. One that ends less than callMargin earlier took too
	// long: a driver may answer before the deadline, to say how far it is.
	callTimeout, callMargin = 15 * time.Minute, 10 * time.Second
	// ReasonRepaired is the reason of the event that a verification has revoked access again.
	ReasonRepaired = "FenceRepaired"
)

// choose returns the tasks of the next call, if one is due, and what to send: those with the same
// parameters and Secret. A verification includes all of them, so that it is one call for all. No
// call ends the fence of CIDRs that another NetworkFence fences, or whose fence has ended.
func (c *caller) choose(ctx context.Context, tasks []*task,
) (chosen []*task, all *wire.NetworkFenceRequest) {
	now := c.Clock.Now()
	for _, t := range tasks {
		due := !t.next.After(now)
		switch {
		case due && len(t.request.GetCidrs()) == 0:
			c.succeed(ctx, t)
		case due && all == nil:
			chosen, all = []*task{t}, &wire.NetworkFenceRequest{
				Parameters: t.request.GetParameters(), Cidrs: slices.Clone(t.request.GetCidrs()),
				SecretName: t.request.GetSecretName(), SecretNamespace: t.request.GetSecretNamespace(),
			}
		case all == nil, chosen[0].alone, t.alone, t.kind != chosen[0].kind, !due && t.kind != verifies,
			t.group() != chosen[0].group():
		default:
			more := slices.DeleteFunc(slices.Clone(t.request.GetCidrs()),
				func(cidr string) bool { return slices.Contains(all.GetCidrs(), cidr) })
			if len(all.GetCidrs())+len(more) <= maxCIDRs {
				chosen, all.Cidrs = append(chosen, t), append(all.Cidrs, more...)
			}
		}
	}
	return chosen, all
}

// perform makes the call of some tasks, and writes what became of it. A verification writes no
// status before the call, and none if it is interrupted, or if the driver has no leader: a new pod
// may replace the leader.
func (c *caller) perform(ctx context.Context, tasks []*task, all *wire.NetworkFenceRequest) {
	kind := tasks[0].kind
	leader, err := c.Sidecars.Leader(ctx, c.name, connection.NetworkFence)
	if err == nil && leader == nil {
		err = fmt.Errorf("the controller is not connected to the pod that is the leader of driver %s "+
			"and can fence", c.name)
	}
	for _, t := range tasks {
		switch {
		case err != nil && kind == verifies:
			t.next = c.Clock.Now().Add(leaderInterval)
		case err != nil:
			c.fail(ctx, t, err)
		case kind != verifies && !c.start(ctx, t, leader):
			return // the next call does not contain it
		}
	}
	if err != nil {
		return
	}
	changed, late, err := c.send(ctx, leader, kind, all)
	switch {
	case ctx.Err() != nil: // the next call repeats it
	case late:
		c.wait(ctx, tasks, err)
	case err != nil:
		c.blame(ctx, tasks, all, err)
	default:
		for _, t := range tasks {
			c.succeed(ctx, t)
		}
		if kind == verifies {
			c.repaired(tasks, changed)
		}
	}
}

// start writes that a call starts, and returns whether it may: the write fails if the NetworkFence
// has changed or does not exist any more, even if the status does not change. After many calls, the
// status goes on to say how far the last one was.
func (c *caller) start(ctx context.Context, t *task, leader *connection.Sidecar) bool {
	reason, text := ReasonStarted, fmt.Sprintf("Pod %s changes the access of the clients: %s",
		leader.Pod.Name, t.fence.Spec.FenceState)
	if t.busy >= maxBusy {
		reason, text = ReasonRetrying, t.fence.Status.Message
	}
	err := c.write(ctx, t.fence, pending(t.fence, reason, text), true)
	if !apierrors.IsConflict(err) {
		c.check(ctx, t, err)
	}
	return err == nil
}

// check delays a NetworkFence whose status cannot be written, unless it does not exist any more.
func (c *caller) check(ctx context.Context, t *task, err error) {
	if client.IgnoreNotFound(err) != nil {
		log.FromContext(ctx).Error(err, "Failed to write a status", "NetworkFence", t.fence.Name)
		t.of = t.about(t.kind)
		t.retry(c.Clock.Now())
	}
}

// send calls the driver. It returns how many shares a fence has changed, according to the driver,
// and whether the call took too long.
func (c *caller) send(ctx context.Context, to *connection.Sidecar, kind kind,
	request *wire.NetworkFenceRequest,
) (changed string, late bool, err error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began, operation, call := c.Clock.Now(), "FenceClusterNetwork", to.NetworkFence.FenceClusterNetwork
	if kind == unfences {
		operation, call = "UnFenceClusterNetwork", to.NetworkFence.UnFenceClusterNetwork
	}
	var trailer metadata.MD
	_, err = call(limited, request, grpc.Trailer(&trailer))
	c.Metrics.Ended(c.name, operation, status.Code(err).String(), c.Clock.Since(began))
	if texts := trailer.Get(wire.ChangedSharesTrailer); len(texts) > 0 {
		changed = texts[0]
	}
	return changed, status.Code(err) == codes.DeadlineExceeded &&
		c.Clock.Since(began) > callTimeout-callMargin, err
}

// succeed writes that a NetworkFence is done, or that it waits for the end of another one.
func (c *caller) succeed(ctx context.Context, t *task) {
	*t.turn = turn{of: t.about(verifies), next: c.Clock.Now().Add(verifyInterval)}
	if t.kind == unfences {
		*t.turn = turn{of: t.about(unfences), next: c.Clock.Now().Add(waitInterval)}
	}
	if t.kind != verifies {
		c.check(ctx, t, c.write(ctx, t.fence, t.done, false))
	}
}

// wait continues a call that took too long. A driver of many shares continues where it was.
func (c *caller) wait(ctx context.Context, tasks []*task, err error) {
	for _, t := range tasks {
		t.next = c.Clock.Now()
		if t.busy++; t.busy >= maxBusy {
			c.report(ctx, t, err)
		}
	}
}

// blame finds the NetworkFences that are the reason why a call has failed. If the driver does not
// name their CIDRs, each is called alone, unless the error is about the driver.
func (c *caller) blame(ctx context.Context, tasks []*task, sent *wire.NetworkFenceRequest,
	err error,
) {
	code, refused := status.Code(err), slices.DeleteFunc(refusedCIDRs(err),
		func(cidr string) bool { return !slices.Contains(sent.GetCidrs(), cidr) })
	all := len(tasks) == 1 || code == codes.Unavailable || code == codes.Aborted ||
		code == codes.Canceled || code == codes.DeadlineExceeded
	for _, t := range tasks {
		named := slices.ContainsFunc(t.request.GetCidrs(),
			func(cidr string) bool { return slices.Contains(refused, cidr) })
		if all || named {
			c.fail(ctx, t, err)
		} else { // it has its turn at once
			t.alone = len(refused) == 0
		}
	}
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

// fail writes that the clients of a NetworkFence may have access, and calls it again later.
func (c *caller) fail(ctx context.Context, t *task, err error) {
	t.retry(c.Clock.Now())
	c.report(ctx, t, err)
}

// report writes an error into the status.
func (c *caller) report(ctx context.Context, t *task, failure error) {
	if t.kind == verifies {
		t.of = t.about(fences)
	}
	c.check(ctx, t, c.write(ctx, t.fence, describe(failure), false))
}

// retry delays the next call more after each failure.
func (t *turn) retry(now time.Time) {
	delay := firstRetry
	for range t.failures {
		delay = min(2*delay, maxRetry)
	}
	t.failures++
	t.busy, t.alone, t.next = 0, false, now.Add(delay)
}

// repaired reports that a driver has revoked access since the last verification. The number of
// shares comes from the driver.
func (c *caller) repaired(tasks []*task, shares string) {
	count, err := strconv.ParseUint(shares, 10, 32)
	if err != nil || count == 0 {
		return
	}
	c.Metrics.Repaired(c.name, count)
	for _, t := range tasks {
		c.Events.Eventf(t.fence, nil, corev1.EventTypeWarning, ReasonRepaired, actionFence,
			"The driver has revoked the access of fenced clients to %d shares: somebody had changed "+
				"their access rules, or the shares are new", count)
	}
}
