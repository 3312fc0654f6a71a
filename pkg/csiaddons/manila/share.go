package manila

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
)

// The values of the fields of Manila's access rules that a fence uses.
const (
	ipType      = "ip"
	activeState = "active"
	failedState = "error"
	// syncingStatus is the state of all rules of a share while Manila changes some.
	syncingStatus = "syncing"
	// maxSteps limits the steps of one share in an operation: somebody else may change its rules.
	maxSteps = 10
)

// Shares are the requests to Manila that a fence sends; *shares.Requests implements it.
type Shares interface {
	List(ctx context.Context, key, value string) ([]shares.Share, error)
	Find(ctx context.Context, shareID string) (share shares.Share, exists bool, err error)
	Rules(ctx context.Context, shareID string) ([]shares.AccessRule, error)
	Grant(ctx context.Context, shareID string, rule shares.AccessRule) error
	Revoke(ctx context.Context, shareID, ruleID string) error
	SetMetadata(ctx context.Context, shareID string, entries map[string]string) error
	DeleteMetadata(ctx context.Context, shareID, key string) error
}

// worker changes the access rules of shares for an operation.
type worker struct {
	Shares

	// cluster is the ID of the cluster.
	cluster   string
	operation operation
	// deleted is the number of shares that Manila is deleting.
	deleted atomic.Int64
}

// job is the change of one share. It continues from the access rules and the record of the share,
// as after a restart, so that it may stop after any request.
type job struct {
	share shares.Share
	// done means that nothing is left to do. err is why the share does not change, and waits why it
	// has to wait for Manila.
	done       bool
	err, waits error
	// granted and revoked are the rules, and the IDs of those, that the last step asked for.
	granted []shares.AccessRule
	revoked []string
	// steps counts the steps, stepped means that there was one since the share waited, and changed
	// that one changed access rules.
	steps            int
	stepped, changed bool
	// next is when a share that waits is tried again, delay after its last attempt.
	next  time.Time
	delay time.Duration
}

// advance changes a share until it is done, fails, or has to wait. One that is gone is done.
func (w *worker) advance(ctx context.Context, j *job) {
	j.waits, j.stepped = nil, false
	for !j.done && j.err == nil {
		p, ready := w.plan(ctx, j)
		if !ready {
			return
		}
		if err := w.step(ctx, j, p); err != nil {
			w.judge(ctx, j, err)
			return
		}
		j.stepped = true
		if j.steps++; j.steps > maxSteps {
			j.err = errors.New("somebody else changes its access rules")
		}
	}
}

// plan reads the access rules of a share, and returns how they change. It is not ready if the share
// is done, fails, or has to wait.
func (w *worker) plan(ctx context.Context, j *job) (p plan, ready bool) {
	rules, err := w.Rules(ctx, j.share.ID)
	if err != nil {
		w.judge(ctx, j, err)
		return p, false
	}
	if j.waits = inProgress(rules); j.waits != nil {
		return p, false
	}
	if j.err = cmp.Or(j.check(rules), checkRecord(j.share, rules)); j.err != nil {
		return p, false
	}
	p, err = w.newPlan(j.share, rules, w.operation)
	if err != nil {
		j.err = &impossibleError{err, func(o operation) error {
			_, err := w.newPlan(j.share, rules, o)
			return err
		}}
		return p, false
	}
	j.done = !p.changes()
	return p, !j.done
}

// judge decides what an error means for a share. Manila answers 400 while a share, one of its
// replicas or a copy of its migration is in a state that excludes the request. The states differ
// between releases, and the status of the share does not show them all, so the share waits whatever
// it is. Manila answers 400 or 404 also for a share that does not exist, and 404 for other reasons.
func (w *worker) judge(ctx context.Context, j *job, err error) {
	reason := openstack.ReasonOf(err)
	switch reason {
	case openstack.Conflict:
		j.waits = err
		return
	case openstack.NotFound, openstack.Refused:
	default:
		j.err = err
		return
	}
	share, exists, findErr := w.Find(ctx, j.share.ID)
	switch {
	case findErr != nil:
		j.err = errors.Join(err, findErr)
	case !exists:
		j.done = true
	case share.Status == deletingStatus:
		w.deleted.Add(1)
		j.done = true
	case reason == openstack.Refused:
		j.waits = err
	default:
		j.err = err
	}
}

// check returns an error if Manila did not do what the last step asked for.
func (j *job) check(rules []shares.AccessRule) error {
	failed := map[string]bool{}
	for _, r := range rules {
		if slices.Contains(j.revoked, r.ID) {
			return fmt.Errorf("Manila failed to revoke the access rule for %q", r.To)
		}
		failed[r.To] = r.Type == ipType && r.State == failedState
	}
	for _, rule := range j.granted {
		if failed[rule.To] {
			return fmt.Errorf("Manila failed to grant access to %s", rule.To)
		}
	}
	return nil
}

// step performs the first step of a plan. The next plan contains the others.
func (w *worker) step(ctx context.Context, j *job, p plan) error {
	j.granted, j.revoked = nil, nil
	if err := w.writeRecord(ctx, &j.share, p.before); err != nil {
		return fmt.Errorf("recording the access rules: %w", err)
	}
	switch {
	case len(p.failed) > 0:
		j.revoked = p.failed
	case len(p.granted) > 0:
		j.granted = p.granted
	case len(p.replaced) > 0:
		j.revoked = p.replaced
	case len(p.revoked) > 0:
		j.revoked = p.revoked
	default:
		if err := w.writeRecord(ctx, &j.share, p.after); err != nil {
			return fmt.Errorf("updating the record of access rules: %w", err)
		}
		j.done = true
		return nil
	}
	j.changed = true
	for _, rule := range j.granted {
		if err := w.Grant(ctx, j.share.ID, rule); err != nil {
			return fmt.Errorf("granting access to %s: %w", rule.To, err)
		}
	}
	for _, id := range j.revoked {
		if err := w.Revoke(ctx, j.share.ID, id); err != nil {
			return fmt.Errorf("revoking access rule %s: %w", id, err)
		}
	}
	return nil
}

// writeRecord writes a record unless the share has it, and removes one without entries.
func (w *worker) writeRecord(ctx context.Context, share *shares.Share,
	entries map[string]string,
) error {
	if hasRecord(*share, entries) {
		return nil
	}
	share.Metadata = maps.Clone(share.Metadata)
	if entries != nil {
		if err := w.SetMetadata(ctx, share.ID, entries); err != nil {
			return err
		}
		maps.Copy(share.Metadata, entries)
	}
	for _, key := range recordKeys() {
		if share.Metadata[key] == "" || entries[key] != "" {
			continue
		}
		if err := w.DeleteMetadata(ctx, share.ID, key); err != nil {
			return err
		}
		delete(share.Metadata, key)
	}
	return nil
}

// inProgress returns an error if Manila has not completed an earlier request.
func inProgress(rules []shares.AccessRule) error {
	if slices.ContainsFunc(rules, func(r shares.AccessRule) bool {
		return r.State != activeState && r.State != failedState
	}) {
		return errors.New("earlier changes of its access rules are in progress")
	}
	return nil
}
