package manila

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// The values of the fields of Manila's access rules that a fence uses.
const (
	ipType      = "ip"
	activeState = "active"
	failedState = "error"
)

// shares are the requests to Manila that a fence sends; *openstack.Shares implements it.
type shares interface {
	List(ctx context.Context, key, value string) ([]openstack.Share, error)
	Find(ctx context.Context, shareID string) (share openstack.Share, exists bool, err error)
	Rules(ctx context.Context, shareID string) ([]openstack.AccessRule, error)
	Grant(ctx context.Context, shareID string, rule openstack.AccessRule) error
	Revoke(ctx context.Context, shareID, ruleID string) error
	SetMetadata(ctx context.Context, shareID string, entries map[string]string) error
	DeleteMetadata(ctx context.Context, shareID, key string) error
}

// worker changes the access rules of shares.
type worker struct {
	shares

	// cluster is the ID of the cluster.
	cluster string
	// interval is the time between two requests that wait for Manila, and limit how long one share
	// may change.
	interval, limit time.Duration
	// settled is when nothing waits any longer for requests in progress.
	settled time.Time
}

// apply performs a plan. It may be repeated after any error: a new plan continues. It returns no
// error if the share does not exist any more.
func (w worker) apply(ctx context.Context, p plan) error {
	if !p.changes() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	patient := w
	patient.settled = time.Now().Add(w.limit)
	return w.unlessGone(ctx, p.share.ID, patient.steps(limited, p))
}

func (w worker) steps(ctx context.Context, p plan) error {
	if err := w.writeRecord(ctx, &p.share, p.before); err != nil {
		return fmt.Errorf("recording the access rules: %w", err)
	}
	for _, step := range []struct {
		revoked []string
		granted []openstack.AccessRule
	}{{p.failed, p.granted}, {p.replaced, p.replacements}, {p.revoked, nil}} {
		if err := w.revoke(ctx, p.share, step.revoked); err != nil {
			return err
		}
		if err := w.grant(ctx, p.share, step.granted); err != nil {
			return err
		}
	}
	if err := w.writeRecord(ctx, &p.share, p.after); err != nil {
		return fmt.Errorf("updating the record of access rules: %w", err)
	}
	return w.verify(ctx, p)
}

// verify returns an error if a share admits a fenced client: somebody may have added an access rule
// meanwhile.
func (w worker) verify(ctx context.Context, p plan) error {
	if len(p.target) == 0 {
		return nil
	}
	rules, err := w.Rules(ctx, p.share.ID)
	if err != nil {
		return err
	}
	current, err := parseRules(rules, false)
	for _, c := range current {
		if overlapsAny(c.network, p.target) {
			return fmt.Errorf("access rule %s for %s was added during the operation", c.id, c.network)
		}
	}
	return err
}

// writeRecord writes a record unless the share has it, and removes one without entries.
func (w worker) writeRecord(ctx context.Context, share *openstack.Share, entries map[string]string,
) error {
	if hasRecord(*share, entries) {
		return nil
	}
	if len(entries) > 0 {
		share.Metadata = entries
		return w.retry(ctx, func() error { return w.SetMetadata(ctx, share.ID, entries) })
	}
	for _, key := range recordKeys() {
		if share.Metadata[key] == "" {
			continue
		}
		err := w.retry(ctx, func() error { return w.DeleteMetadata(ctx, share.ID, key) })
		if err != nil {
			return err
		}
	}
	return nil
}

// grant adds rules, and waits until they are active.
func (w worker) grant(ctx context.Context, share openstack.Share, granted []openstack.AccessRule,
) error {
	if len(granted) == 0 {
		return nil
	}
	for _, rule := range granted {
		err := w.retry(ctx, func() error { return w.Grant(ctx, share.ID, rule) })
		if err != nil {
			return fmt.Errorf("granting access to %s: %w", rule.To, err)
		}
	}
	rules, err := w.settledRules(ctx, share)
	if err != nil {
		return err
	}
	active := map[string]bool{}
	for _, r := range rules {
		if r.Type == ipType && r.State == activeState {
			active[r.To] = true
		}
	}
	for _, rule := range granted {
		if !active[rule.To] {
			return fmt.Errorf("Manila failed to grant access to %s", rule.To)
		}
	}
	return nil
}

// revoke removes rules, and waits until they are gone.
func (w worker) revoke(ctx context.Context, share openstack.Share, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		err := w.retry(ctx, func() error { return w.Revoke(ctx, share.ID, id) })
		if err != nil {
			return fmt.Errorf("revoking access rule %s: %w", id, err)
		}
	}
	rules, err := w.settledRules(ctx, share)
	if err != nil {
		return err
	}
	for _, r := range rules {
		if slices.Contains(ids, r.ID) {
			return fmt.Errorf("Manila failed to revoke the access rule for %q", r.To)
		}
	}
	return nil
}

// settledRules returns the access rules of a share when no request about them is in progress, and
// waits for this until the time w.settled.
func (w worker) settledRules(ctx context.Context, share openstack.Share,
) (rules []openstack.AccessRule, err error) {
	var busy error
	err = wait.PollUntilContextCancel(ctx, w.interval, true,
		func(ctx context.Context) (bool, error) {
			rules, err = w.Rules(ctx, share.ID)
			busy = inProgress(rules)
			return busy == nil || time.Now().After(w.settled), err
		})
	if err == nil || ctx.Err() != nil {
		err = errors.Join(busy, err)
	}
	return rules, err
}

// inProgress returns an error if Manila has not completed an earlier request.
func inProgress(rules []openstack.AccessRule) error {
	if slices.ContainsFunc(rules, func(r openstack.AccessRule) bool {
		return r.State != activeState && r.State != failedState
	}) {
		return errors.New("earlier changes of its access rules are in progress")
	}
	return nil
}

// retry repeats a request while Manila is busy with the share.
func (w worker) retry(ctx context.Context, request func() error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, w.interval, true, func(context.Context) (bool, error) {
		last = request()
		return openstack.ReasonOf(last) != openstack.Conflict, nil
	})
	return errors.Join(last, err)
}
