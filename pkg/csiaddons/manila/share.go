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
	Rules(ctx context.Context, shareID string) ([]openstack.AccessRule, error)
	Grant(ctx context.Context, shareID string, rule openstack.AccessRule) error
	Revoke(ctx context.Context, shareID, ruleID string) error
	SetMetadata(ctx context.Context, shareID string, entries map[string]string) error
	DeleteMetadata(ctx context.Context, shareID, key string) error
}

// worker changes the access rules of shares.
type worker struct {
	shares
	// interval is the time between two requests that wait for Manila.
	interval time.Duration
}

// apply performs a plan. It may be repeated after any error: a new plan continues. It returns no
// error if the share does not exist any more.
func (w worker) apply(ctx context.Context, p plan) error {
	err := w.steps(ctx, p)
	if openstack.ReasonOf(err) == openstack.NotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("share %s: %w", p.share.ID, err)
	}
	return nil
}

func (w worker) steps(ctx context.Context, p plan) error {
	if err := w.writeRecord(ctx, &p.share, p.before); err != nil {
		return fmt.Errorf("recording the access rules: %w", err)
	}
	if err := w.revoke(ctx, p.share.ID, p.replaced); err != nil {
		return err
	}
	for _, rule := range p.granted {
		if err := w.grant(ctx, p.share.ID, rule); err != nil {
			return fmt.Errorf("granting access to %s: %w", rule.To, err)
		}
	}
	if len(p.granted) > 0 {
		if err := w.waitActive(ctx, p.share.ID, p.granted); err != nil {
			return err
		}
	}
	if err := w.revoke(ctx, p.share.ID, p.revoked); err != nil {
		return err
	}
	if err := w.writeRecord(ctx, &p.share, p.after); err != nil {
		return fmt.Errorf("updating the record of access rules: %w", err)
	}
	return nil
}

// writeRecord writes a record unless the share has it, and removes one without rules. The key with
// the fenced networks is removed first: rules to restore without a fence do no harm.
func (w worker) writeRecord(ctx context.Context, share *openstack.Share, r record) error {
	if len(r.revoked) == 0 || len(r.fenced) == 0 {
		for _, key := range []string{fencedKey, revokedKey} {
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
	entries, err := r.metadata()
	if err != nil {
		return err
	}
	if share.Metadata[fencedKey] == entries[fencedKey] &&
		share.Metadata[revokedKey] == entries[revokedKey] {
		return nil
	}
	share.Metadata = entries
	return w.retry(ctx, func() error { return w.SetMetadata(ctx, share.ID, entries) })
}

// grant adds a rule. Manila refuses a rule that exists: then an earlier request was not lost.
func (w worker) grant(ctx context.Context, shareID string, rule openstack.AccessRule) error {
	err := w.retry(ctx, func() error { return w.Grant(ctx, shareID, rule) })
	if openstack.ReasonOf(err) != openstack.Refused {
		return err
	}
	rules, listErr := w.Rules(ctx, shareID)
	if listErr == nil && slices.ContainsFunc(rules, func(r openstack.AccessRule) bool {
		return r.Type == rule.Type && r.To == rule.To && r.Level == rule.Level
	}) {
		return nil
	}
	return errors.Join(err, listErr)
}

// revoke removes rules and waits until they are gone.
func (w worker) revoke(ctx context.Context, shareID string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		if err := w.retry(ctx, func() error { return w.Revoke(ctx, shareID, id) }); err != nil {
			return fmt.Errorf("revoking access rule %s: %w", id, err)
		}
	}
	return w.wait(ctx, shareID, "revoked access rules remain",
		func(rules []openstack.AccessRule) (done bool, err error) {
			done = true
			for _, r := range rules {
				if !slices.Contains(ids, r.ID) {
					continue
				}
				if done = false; r.State == failedState {
					return false, fmt.Errorf("Manila failed to revoke the access rule for %q", r.To)
				}
			}
			return done, nil
		})
}

// waitActive waits until granted rules are active.
func (w worker) waitActive(ctx context.Context, shareID string, granted []openstack.AccessRule,
) error {
	return w.wait(ctx, shareID, "granted access rules are not active",
		func(rules []openstack.AccessRule) (done bool, err error) {
			states := map[string]string{}
			for _, r := range rules {
				if r.Type == ipType {
					states[r.To] = r.State
				}
			}
			done = true
			for _, g := range granted {
				if states[g.To] == failedState {
					return false, fmt.Errorf("Manila failed to grant access to %s", g.To)
				}
				done = done && states[g.To] == activeState
			}
			return done, nil
		})
}

// settled waits until no request about the access rules of a share is in progress, and returns the
// rules.
func (w worker) settled(ctx context.Context, shareID string) (rules []openstack.AccessRule,
	err error,
) {
	err = w.wait(ctx, shareID, "earlier changes of access rules are in progress",
		func(found []openstack.AccessRule) (bool, error) {
			rules = found
			return !slices.ContainsFunc(found, func(r openstack.AccessRule) bool {
				return r.State != activeState && r.State != failedState
			}), nil
		})
	return rules, err
}

// wait lists the access rules of a share until they fulfil a condition. Otherwise the error
// contains what is the case.
func (w worker) wait(ctx context.Context, shareID, otherwise string,
	done func([]openstack.AccessRule) (bool, error),
) error {
	var failure error
	err := wait.PollUntilContextCancel(ctx, w.interval, true,
		func(ctx context.Context) (finished bool, err error) {
			var rules []openstack.AccessRule
			if rules, failure = w.Rules(ctx, shareID); failure == nil {
				finished, failure = done(rules)
			}
			return finished, failure
		})
	if failure != nil && ctx.Err() == nil {
		return failure
	}
	if err != nil {
		return fmt.Errorf("%s: %w", otherwise, err)
	}
	return nil
}

// retry repeats a request while Manila is busy with the share.
func (w worker) retry(ctx context.Context, request func() error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, w.interval, true, func(context.Context) (bool, error) {
		if last = request(); openstack.ReasonOf(last) == openstack.Conflict {
			return false, nil
		}
		return last == nil, last
	})
	if err != nil && last != nil && !errors.Is(err, last) {
		return fmt.Errorf("%w: %w", last, err)
	}
	return err
}
