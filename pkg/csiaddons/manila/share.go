package manila

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
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
	// interval is the time between two requests that wait for Manila, and limit how long one share
	// may change.
	interval, limit time.Duration
	// cluster is the ID of the cluster.
	cluster string
	// settled is when no plan waits any longer for requests in progress.
	settled time.Time
	// fenced contains the IDs of the shares that have a record.
	fenced *sync.Map
}

// apply performs a plan. It may be repeated after any error: a new plan continues. It returns no
// error if the share does not exist any more.
func (w worker) apply(ctx context.Context, p plan) error {
	limited, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	w.fenced.Store(p.share.ID, true)
	if err := w.steps(limited, p); err != nil {
		return w.unlessGone(ctx, p.share.ID, err)
	}
	if p.after.empty() {
		w.fenced.Delete(p.share.ID)
	}
	return nil
}

func (w worker) steps(ctx context.Context, p plan) error {
	if err := w.writeRecord(ctx, &p.share, p.before); err != nil {
		return fmt.Errorf("recording the access rules: %w", err)
	}
	if err := w.revoke(ctx, p.share.ID, p.failed); err != nil {
		return err
	}
	if err := w.grant(ctx, p.share.ID, p.granted); err != nil {
		return err
	}
	if err := w.revoke(ctx, p.share.ID, p.replaced); err != nil {
		return err
	}
	if err := w.grant(ctx, p.share.ID, p.replacements); err != nil {
		return err
	}
	if err := w.revoke(ctx, p.share.ID, p.revoked); err != nil {
		return err
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

// writeRecord writes a record unless the share has it, and removes one without rules. The key with
// the fenced networks is removed first: rules to restore without a fence do no harm. The mark is
// removed last, so that a later operation finds the rest.
func (w worker) writeRecord(ctx context.Context, share *openstack.Share, r record) error {
	if r.empty() {
		for _, key := range []string{fencedKey, revokedKey, markKey} {
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
	if share.Metadata[clusterKey] != w.cluster {
		entries[markKey] = w.cluster
	}
	metadata := map[string]string{}
	maps.Copy(metadata, share.Metadata)
	maps.Copy(metadata, entries)
	if maps.Equal(metadata, share.Metadata) {
		return nil
	}
	share.Metadata = metadata
	return w.retry(ctx, func() error { return w.SetMetadata(ctx, share.ID, entries) })
}

// grant adds rules, and waits until they are active.
func (w worker) grant(ctx context.Context, shareID string, granted []openstack.AccessRule) error {
	if len(granted) == 0 {
		return nil
	}
	for _, rule := range granted {
		if err := w.grantOne(ctx, shareID, rule); err != nil {
			return fmt.Errorf("granting access to %s: %w", rule.To, err)
		}
	}
	return w.waitActive(ctx, shareID, granted)
}

// grantOne adds a rule. Manila refuses a rule that exists: then an earlier request was not lost.
func (w worker) grantOne(ctx context.Context, shareID string, rule openstack.AccessRule) error {
	err := w.retry(ctx, func() error { return w.Grant(ctx, shareID, rule) })
	if openstack.ReasonOf(err) != openstack.Refused {
		return err
	}
	rules, listErr := w.Rules(ctx, shareID)
	if listErr == nil && slices.ContainsFunc(rules, func(r openstack.AccessRule) bool {
		return sameClients(r, rule) && r.Level == rule.Level
	}) {
		return nil
	}
	return errors.Join(err, listErr)
}

// sameClients returns whether rules of type ip are for the same clients. A share has at most one
// such rule: Manila compares networks, not texts (_check_for_existing_access in
// manila/db/sqlalchemy/api.py).
func sameClients(a, b openstack.AccessRule) bool {
	one, errOne := parseNetwork(a.To)
	other, errOther := parseNetwork(b.To)
	return a.Type == b.Type && errOne == nil && errOther == nil && one == other
}

// revoke removes rules and waits until they are gone.
func (w worker) revoke(ctx context.Context, shareID string, ids []string) error {
	for _, id := range ids {
		if err := w.retry(ctx, func() error { return w.Revoke(ctx, shareID, id) }); err != nil {
			return fmt.Errorf("revoking access rule %s: %w", id, err)
		}
	}
	if len(ids) == 0 {
		return nil
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

// rules returns the access rules of a share when no request about them is in progress.
func (w worker) rules(ctx context.Context, shareID string) (
	rules []openstack.AccessRule, err error,
) {
	busy := false
	err = w.until(ctx, func(ctx context.Context) (bool, error) {
		rules, err = w.Rules(ctx, shareID)
		busy = slices.ContainsFunc(rules, func(r openstack.AccessRule) bool {
			return r.State != activeState && r.State != failedState
		})
		return !busy, err
	})
	if busy && (err == nil || ctx.Err() != nil) {
		err = errors.Join(errors.New("earlier changes of its access rules are in progress"), err)
	}
	return rules, err
}

// until repeats a request until it is done or fails, at the latest until the time w.settled.
func (w worker) until(ctx context.Context, request func(context.Context) (done bool, err error),
) error {
	return wait.PollUntilContextCancel(ctx, w.interval, true,
		func(ctx context.Context) (bool, error) {
			done, err := request(ctx)
			return done || time.Now().After(w.settled), err
		})
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
