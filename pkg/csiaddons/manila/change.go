package manila

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	// concurrentShares is how many shares change at the same time.
	concurrentShares = 16
	// maxCauses limits the shares that are compared to find which clients cannot be fenced. Most
	// shares have the same rules. The next call finds others.
	maxCauses = 100
	// deletingStatus is the status of a share that Manila deletes. Nobody can mount it, or change its
	// access rules. Some shares keep it for ever.
	deletingStatus = "deleting"
)

// operation is a fence, or the end of one.
type operation struct {
	// limit is the maximum number of access rules of a share. It is 0 for the end of a fence.
	limit int
	// networks are those to fence, or whose fence ends.
	networks []netip.Prefix
}

func (o operation) fences() bool { return o.limit > 0 }

// target returns the networks to fence from the record of a share.
func (o operation) target(r record) []netip.Prefix {
	if o.fences() {
		return sorted(slices.Concat(r.fenced, o.networks))
	}
	return slices.DeleteFunc(slices.Clone(r.fenced),
		func(fenced netip.Prefix) bool { return slices.Contains(o.networks, fenced) })
}

// change plans the changes of all shares, and performs them. If a share cannot express a fence, no
// share changes. Any other problem of a share does not keep the others from changing.
func (c *Controller) change(ctx context.Context, o operation) error {
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-answerTime))
		defer cancel()
	}
	if err := c.slot.Acquire(ctx, 1); err != nil {
		return status.FromContextError(err).Err()
	}
	defer c.slot.Release(1)
	cloud, err := c.connect(ctx)
	if err != nil {
		return cloudError(ctx, err)
	}
	found, err := c.find(ctx, cloud, o)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(share openstack.Share) bool {
		return !isNFS(share) || share.Status == deletingStatus
	})
	w := worker{
		shares: cloud, cluster: c.config.Cluster, interval: c.interval, limit: c.limit,
		settled: time.Now().Add(c.settle),
	}
	return w.changeAll(ctx, found, o)
}

func (w worker) changeAll(ctx context.Context, found []openstack.Share, o operation) error {
	impossible, failed := map[string]error{}, map[string]error{}
	var causes []*impossibleError
	plans, errs := each(found, func(share openstack.Share) (plan, error) {
		return w.plan(ctx, share, o)
	})
	for i, err := range errs {
		cause, isImpossible := errors.AsType[*impossibleError](err)
		switch {
		case o.fences() && isImpossible:
			impossible[found[i].ID], causes = err, append(causes, cause)
		case err != nil:
			failed[found[i].ID] = err
		}
	}
	err := summary("cannot express the fence, so no share is changed", len(found), impossible)
	if err != nil {
		return refuse(status.New(codes.FailedPrecondition, err.Error()), refused(o, causes))
	}
	changed, errs := each(plans, func(p plan) (bool, error) {
		return p.changesRules(), w.apply(ctx, p)
	})
	count := 0
	for i, err := range errs {
		if err != nil {
			failed[found[i].ID] = err
		}
		if changed[i] {
			count++
		}
	}
	if o.fences() { // it fails only outside a call
		_ = grpc.SetTrailer(ctx, metadata.Pairs(wire.ChangedSharesTrailer, strconv.Itoa(count)))
	}
	return cloudError(ctx, summary("did not change", len(found), failed))
}

// each calls work for all items, for some at the same time, and returns the results in the order of
// the items.
func each[T, R any](items []T, work func(T) (R, error)) ([]R, []error) {
	results, errs := make([]R, len(items)), make([]error, len(items))
	var group errgroup.Group
	group.SetLimit(concurrentShares)
	for i, item := range items {
		group.Go(func() error {
			results[i], errs[i] = work(item)
			return nil
		})
	}
	_ = group.Wait() // no work returns an error
	return results, errs
}

// summary returns an error with the number of shares that have an error, by their IDs, or nil. It
// contains the error of the smallest ID, so that the same problems have the same text.
func summary(what string, all int, errs map[string]error) error {
	if len(errs) == 0 {
		return nil
	}
	shareID := slices.Min(slices.Collect(maps.Keys(errs)))
	return fmt.Errorf("%d of %d shares %s: share %s: %w", len(errs), all, what, shareID,
		errs[shareID])
}

// impossibleError means that the access rules or the record of a share cannot express a fence.
type impossibleError struct {
	error

	// plan plans another operation for the same share.
	plan func(operation) error
}

// refused returns the networks of a fence without which it would be possible for some shares.
func refused(o operation, causes []*impossibleError) (texts []string) {
	causes = causes[:min(len(causes), maxCauses)]
	possible := o
	possible.networks = nil
	for _, network := range o.networks {
		more := possible
		more.networks = append(slices.Clone(possible.networks), network)
		if slices.ContainsFunc(causes, func(c *impossibleError) bool { return c.plan(more) != nil }) {
			texts = append(texts, network.String())
		} else {
			possible = more
		}
	}
	return texts
}

// refuse returns the error of a status that names CIDRs: the operation may be possible without
// them, and the caller need not try which.
func refuse(s *status.Status, cidrs []string) error {
	named := &errdetails.BadRequest{}
	for _, cidr := range cidrs {
		named.FieldViolations = append(named.FieldViolations,
			&errdetails.BadRequest_FieldViolation{Field: cidr})
	}
	if detailed, err := s.WithDetails(named); err == nil { // it fails only for OK
		s = detailed
	}
	return s.Err()
}

// refusal names all CIDRs of a request in an error that is not about some of them, unless its cause
// may be gone in a moment.
func refusal(err error, request request) error {
	s := status.Convert(err)
	if code := s.Code(); len(s.Details()) > 0 ||
		code != codes.FailedPrecondition && code != codes.InvalidArgument {
		return err
	}
	var all []string
	for _, cidr := range request.GetCidrs() {
		all = append(all, cidr.GetCidr())
	}
	return refuse(s, all)
}

// plan reads the access rules of a share and returns how they change. The plan is empty if the
// share does not exist any more.
func (w worker) plan(ctx context.Context, share openstack.Share, o operation) (plan, error) {
	rules, err := w.settledRules(ctx, share)
	if err != nil {
		return plan{}, w.unlessGone(ctx, share.ID, err)
	}
	p, err := w.newPlan(share, rules, o)
	if err != nil {
		return plan{}, &impossibleError{err, func(o operation) error {
			_, err := w.newPlan(share, rules, o)
			return err
		}}
	}
	return p, nil
}

// unlessGone returns nil if the reason of an error is that a share does not exist any more, and
// otherwise the error. Manila answers 400 or 404 for the access rules of such a share, and 404 also
// for other reasons, so it decides about the share itself.
func (w worker) unlessGone(ctx context.Context, shareID string, err error) error {
	switch openstack.ReasonOf(err) {
	case openstack.NotFound, openstack.Refused:
	default:
		return err
	}
	_, exists, findErr := w.Find(ctx, shareID)
	if findErr == nil && !exists {
		return nil
	}
	return errors.Join(err, findErr)
}
