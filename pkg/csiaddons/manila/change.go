package manila

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	// concurrentShares is how many shares change at the same time.
	concurrentShares = 8
	// deletingStatus is the status of a share that Manila deletes. Nobody can change its access rules.
	deletingStatus = "deleting"
	// unlistedStatus is not a status of Manila: it marks a fenced share that Manila does not list.
	unlistedStatus = "unlisted"
)

// operation is a fence, or the end of one.
type operation struct {
	// limit is the maximum number of access rules of a share. It is 0 for the end of a fence.
	limit int
	// target returns the networks to fence from the record of a share.
	target func(record) []netip.Prefix
}

func (o operation) fences() bool { return o.limit > 0 }

// change plans the changes of all shares, and performs them. If a share cannot express a fence, no
// share changes. Any other problem of a share does not keep the others from changing.
func (c *Controller) change(ctx context.Context, o operation) error {
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	cloud, err := c.connect(ctx)
	if err != nil {
		return cloudError(ctx, err)
	}
	found, err := c.find(ctx, cloud, o)
	if err != nil {
		return err
	}
	unlisted := c.unlisted(found)
	if !o.fences() {
		found = slices.DeleteFunc(found, func(share openstack.Share) bool {
			return !isNFS(share) || share.Status == deletingStatus
		})
	}
	w := worker{
		shares: cloud, interval: c.interval, limit: c.limit, settled: time.Now().Add(c.settle),
		cluster: c.config.Cluster, fenced: &c.fenced,
	}
	return w.changeAll(ctx, append(found, unlisted...), o)
}

// unlisted returns the shares that this process has fenced and that are not in a list of all
// shares. It remembers which of the shares in the list are fenced.
func (c *Controller) unlisted(found []openstack.Share) (unlisted []openstack.Share) {
	listed := map[string]bool{}
	for _, share := range found {
		listed[share.ID] = true
		if share.Metadata[fencedKey] == "" {
			c.fenced.Delete(share.ID)
		} else {
			c.fenced.Store(share.ID, true)
		}
	}
	c.fenced.Range(func(id, _ any) bool {
		if id := id.(string); !listed[id] {
			unlisted = append(unlisted, openstack.Share{ID: id, Status: unlistedStatus})
		}
		return true
	})
	return unlisted
}

func (w worker) changeAll(ctx context.Context, found []openstack.Share, o operation) error {
	var mu sync.Mutex
	var plans []plan
	var impossible, failed problems
	changed := 0 // shares whose access rules change
	each(found, func(share openstack.Share) {
		p, err := w.plan(ctx, share, o)
		switch {
		case o.fences() && isImpossible(err):
			impossible.add(share.ID, err)
		case err != nil:
			failed.add(share.ID, err)
		case p.changes():
			mu.Lock()
			defer mu.Unlock()
			plans = append(plans, p)
			if p.changesRules() {
				changed++
			}
		}
	})
	err := impossible.summary("cannot express the fence, so no share is changed", found)
	if err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	each(plans, func(p plan) { failed.add(p.share.ID, w.apply(ctx, p)) })
	if o.fences() { // it fails only outside a call
		_ = grpc.SetTrailer(ctx, metadata.Pairs(wire.ChangedSharesTrailer, strconv.Itoa(changed)))
	}
	return cloudError(ctx, failed.summary("did not change", found))
}

// each calls work for all items, for some at the same time.
func each[T any](items []T, work func(T)) {
	var group errgroup.Group
	group.SetLimit(concurrentShares)
	for _, item := range items {
		group.Go(func() error {
			work(item)
			return nil
		})
	}
	_ = group.Wait() // no work returns an error
}

// problems counts the shares with an error. It is safe for concurrent use.
type problems struct {
	mu    sync.Mutex
	count int
	// shareID is the smallest ID of a share with an error, so that the same problems have the same
	// text, and err is its error.
	shareID string
	err     error
}

// add adds the error of a share, unless it is nil.
func (p *problems) add(shareID string, err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count++; p.err == nil || shareID < p.shareID {
		p.shareID, p.err = shareID, err
	}
}

// summary returns an error with the number of shares and the error of one of them, or nil.
func (p *problems) summary(what string, all []openstack.Share) error {
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("%d of %d shares %s: share %s: %w", p.count, len(all), what, p.shareID, p.err)
}

// impossibleError means that the access rules or the record of a share cannot express a fence.
type impossibleError struct{ error }

func isImpossible(err error) bool {
	_, impossible := errors.AsType[*impossibleError](err)
	return impossible
}

// plan reads the access rules of a share and returns how they change. The plan is empty if the
// share does not exist any more.
func (w worker) plan(ctx context.Context, share openstack.Share, o operation) (plan, error) {
	if share.Status == unlistedStatus {
		return plan{}, w.confirmEnd(ctx, share.ID)
	}
	old, err := readRecord(share)
	if err != nil {
		return plan{}, &impossibleError{err}
	}
	if share.Status == deletingStatus {
		return plan{}, w.awaitEnd(ctx, share.ID)
	}
	rules, err := w.rules(ctx, share.ID)
	if err != nil {
		return plan{}, w.unlessGone(ctx, share.ID, err)
	}
	p, err := newPlan(share, rules, o.target(old), o.limit)
	if err != nil {
		return plan{}, &impossibleError{err}
	}
	return p, nil
}

// awaitEnd waits until a share that Manila deletes does not exist any more. Until then its clients
// may have access, and the deletion may fail.
func (w worker) awaitEnd(ctx context.Context, shareID string) error {
	exists := true
	err := w.until(ctx, func(ctx context.Context) (done bool, err error) {
		_, exists, err = w.Find(ctx, shareID)
		return !exists, err
	})
	if err == nil && exists {
		err = errors.New("it is being deleted")
	}
	return err
}

// confirmEnd returns an error if a share that Manila does not list has a record. If the share does
// not exist or has no record, this process forgets it: another process may have ended the fence.
func (w worker) confirmEnd(ctx context.Context, shareID string) error {
	share, exists, err := w.Find(ctx, shareID)
	switch {
	case err != nil:
		return err
	case exists && share.Metadata[fencedKey] != "":
		return fmt.Errorf("it is fenced, and not in the list of the shares of the cluster: set its "+
			"metadata %s to the ID of the cluster", markKey)
	}
	w.fenced.Delete(shareID)
	return nil
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
