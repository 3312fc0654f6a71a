package manila

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// concurrentShares is how many shares change at the same time.
	concurrentShares = 16
	// maxCauses limits the shares that are compared to find which clients cannot be fenced. Most
	// shares have the same rules. The next call finds others.
	maxCauses = 100
	// deletingStatus is the status of a share that Manila deletes. Nobody can change its access
	// rules. Existing mounts may use it until the backend has removed them. Some keep it for ever.
	deletingStatus = "deleting"
)

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
	cloud, err := c.config.Connect(ctx)
	if err != nil {
		return cloudError(ctx, err)
	}
	found, err := c.find(ctx, cloud, o)
	if err != nil {
		return err
	}
	w := worker{Shares: cloud, cluster: c.config.Cluster, operation: o}
	var jobs []*job
	for _, share := range found {
		switch {
		case !isNFS(share):
		case share.Status == deletingStatus:
			w.deleted.Add(1)
		default:
			jobs = append(jobs, &job{share: share})
		}
	}
	return c.changeAll(ctx, &w, jobs)
}

func (c *Controller) changeAll(ctx context.Context, w *worker, jobs []*job) error {
	each(jobs, func(_ int, j *job) { _, _ = w.plan(ctx, j) })
	s := newSchedule(w, c.pace)
	for _, j := range jobs {
		switch {
		case j.waits != nil:
			s.wait(j)
		case !j.done && j.err == nil:
			s.ready = append(s.ready, j)
		}
	}
	if err := w.impossible(jobs, "cannot express the fence, so no share is changed"); err != nil {
		return err
	}
	s.run(ctx)
	count := 0
	for _, j := range jobs {
		if j.changed {
			count++
		}
	}
	if w.operation.fences() { // it fails only outside a call
		_ = grpc.SetTrailer(ctx, metadata.Pairs(wire.ChangedSharesTrailer, strconv.Itoa(count)))
	}
	klog.FromContext(ctx).Info("Changed the access rules of shares", "changed", count,
		"all", len(jobs), "waiting", len(s.waiting), "beingDeleted", w.deleted.Load())
	if err := w.impossible(jobs, "cannot express the fence"); err != nil {
		return err // their rules were not complete when the others were planned
	}
	return cloudError(ctx, w.summary(jobs))
}

// impossible returns an error that names the networks to leave out if some shares cannot express a
// fence. If it is all of them, the error is not about networks.
func (w *worker) impossible(jobs []*job, what string) error {
	var causes []*impossibleError
	failed := map[string]error{}
	for _, j := range jobs {
		if cause, ok := errors.AsType[*impossibleError](j.err); ok && w.operation.fences() {
			causes, failed[j.share.ID] = append(causes, cause), j.err
		}
	}
	if len(causes) == 0 {
		return nil
	}
	refused := refused(w.operation, causes)
	if len(refused) == len(w.operation.networks) {
		refused = nil
	}
	return refuse(status.Newf(codes.FailedPrecondition, "%d of %d shares %s: %v", len(failed),
		len(jobs), what, first(failed)), refused)
}

// summary returns an error that counts the shares that did not change, or nil.
func (w *worker) summary(jobs []*job) error {
	failed, waiting := map[string]error{}, map[string]error{}
	for _, j := range jobs {
		switch {
		case j.err != nil:
			failed[j.share.ID] = j.err
		case j.waits != nil:
			waiting[j.share.ID] = j.waits
		case !j.done:
			failed[j.share.ID] = errors.New("there was no time for it")
		}
	}
	if len(failed)+len(waiting) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %d shares did not change", len(failed)+len(waiting), len(jobs))
	if len(waiting) > 0 {
		text += fmt.Sprintf(", of which %d wait for Manila", len(waiting))
	}
	if n := w.deleted.Load(); n > 0 {
		text += fmt.Sprintf(" (%d more are being deleted)", n)
	}
	if len(failed) == 0 {
		failed = waiting
	}
	return fmt.Errorf("%s: %w", text, first(failed))
}

// first returns the error of the smallest ID, so that the same problems have the same text.
func first(errs map[string]error) error {
	shareID := slices.Min(slices.Collect(maps.Keys(errs)))
	return fmt.Errorf("share %s: %w", shareID, errs[shareID])
}

// each calls work for all items, for some at the same time.
func each[T any](items []T, work func(i int, item T)) {
	var group errgroup.Group
	group.SetLimit(concurrentShares)
	for i, item := range items {
		group.Go(func() error {
			work(i, item)
			return nil
		})
	}
	_ = group.Wait() // no work returns an error
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
	if detailed, err := s.WithDetails(named); err == nil && len(cidrs) > 0 { // it fails only for OK
		s = detailed
	}
	return s.Err()
}
