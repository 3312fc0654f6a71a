package sharestate

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

// Rule is an access rule of a share.
type Rule struct {
	ID, Type, To, Level, State string
	Metadata                   map[string]string
	Created, Updated           time.Time

	// exported means that the backend admits the clients. A rule that Manila has not denied yet still
	// admits them.
	exported bool
	// network is that of a rule of type ip.
	network netip.Prefix
}

// Access is what a share remembers about its access rules. The zero value is that of a new share.
type Access struct {
	Rules []*Rule
	// Copies are the statuses of other instances of the share: replicas, and copies of a migration.
	// The status of the share does not show them.
	Copies []string
	// SoftDeleted means that the share is in the recycle bin, which exists since 2.69.
	SoftDeleted bool
}

// Share is a share whose access rules a request is about.
type Share struct{ ID, Status string }

// Allow adds a rule that waits for the backend, or returns the refusal of Manila.
func (a *Access) Allow(of Share, rule *Rule) error {
	if a.SoftDeleted {
		return refuse(http.StatusForbidden,
			"Cannot allow access for share '%s' since it has been soft deleted.", of.ID)
	}
	switch rule.Type {
	case "ip":
		allowed, err := network(rule.To)
		if err != nil {
			return refuse(http.StatusBadRequest, "%s", err)
		}
		rule.network = allowed
	case "user", "cert":
	default:
		return refuse(http.StatusBadRequest,
			"Only 'ip', 'user', 'cert' or 'cephx' access types are supported.")
	}
	if rule.Level != "ro" && rule.Level != "rw" {
		return refuse(http.StatusBadRequest, "Invalid access rule: Invalid share access level: %s.",
			rule.Level)
	}
	if err := CheckMetadata(rule.Metadata); err != nil {
		return err
	}
	if slices.ContainsFunc(a.Rules, rule.equals) {
		return refuse(http.StatusBadRequest, "Share access %s:%s exists.", rule.Type, rule.To)
	}
	if a.refuses(of.Status) {
		return refuse(http.StatusBadRequest, "New access rules cannot be applied while the share or any "+
			"of its replicas or migration copies lacks a valid host or is in an invalid state.")
	}
	rule.State = QueuedToApply
	a.Rules = append(a.Rules, rule)
	return nil
}

// Deny marks a rule to be removed by the backend, or returns the refusal of Manila.
func (a *Access) Deny(of Share, ruleID string) (*Rule, error) {
	if a.SoftDeleted {
		return nil, refuse(http.StatusForbidden,
			"Cannot deny access for share '%s' since it has been soft deleted.", of.ID)
	}
	i := slices.IndexFunc(a.Rules, func(r *Rule) bool { return r.ID == ruleID })
	if i < 0 {
		return nil, refuse(http.StatusNotFound, "Resource could not be found.")
	}
	if a.refuses(of.Status) {
		return nil, refuse(http.StatusBadRequest, "Access rules cannot be denied while the share, any "+
			"of its replicas or migration copies lacks a valid host or is in an invalid state.")
	}
	a.Rules[i].State = QueuedToDeny
	return a.Rules[i], nil
}

// DenyAll marks all rules, as at the begin of a deletion.
func (a *Access) DenyAll() {
	for _, rule := range a.Rules {
		rule.State = QueuedToDeny
	}
}

// refuses returns whether the status of an instance refuses requests about rules.
func (a *Access) refuses(status string) bool {
	return slices.ContainsFunc(append([]string{status}, a.Copies...), func(status string) bool {
		return slices.Contains(RefusingRules(), status)
	})
}

// Begin starts all queued requests, as the manager of a backend does. It returns whether any are.
func (a *Access) Begin() bool { return a.replace(QueuedToApply, Applying, QueuedToDeny, Denying) }

// Interrupt undoes Begin, as the manager of a backend does when it starts.
func (a *Access) Interrupt() { a.replace(Applying, QueuedToApply, Denying, QueuedToDeny) }

func (a *Access) replace(pairs ...string) (changed bool) {
	for _, rule := range a.Rules {
		for pair := range slices.Chunk(pairs, 2) {
			if rule.State == pair[0] {
				rule.State, changed = pair[1], true
				break
			}
		}
	}
	return changed
}

// Busy returns whether a request about a rule is in progress.
func (a *Access) Busy() bool { return a.has(Applying, Denying) }

// Complete ends the requests that are in progress. The backend has failed if failed is true.
func (a *Access) Complete(failed bool, now time.Time) {
	for _, rule := range slices.Clone(a.Rules) {
		if rule.State == Applying || rule.State == Denying {
			a.CompleteRule(rule, failed, now)
		}
	}
}

// CompleteRule ends the request about one rule.
func (a *Access) CompleteRule(rule *Rule, failed bool, now time.Time) {
	rule.Updated = now
	switch rule.State {
	case QueuedToApply, Applying:
		rule.State, rule.exported = Active, true
		if failed {
			rule.State, rule.exported = Failed, false
		}
	case QueuedToDeny, Denying:
		if failed {
			rule.State = Failed
			return
		}
		a.Rules = slices.DeleteFunc(a.Rules, func(r *Rule) bool { return r == rule })
	}
}

// RulesStatus returns the state of all rules together. Manila counts only available instances.
func (a *Access) RulesStatus(share string) string {
	switch {
	case share != Available && !slices.Contains(a.Copies, Available):
		return Active
	case a.has(Failed):
		return Failed
	case a.has(QueuedToApply, QueuedToDeny, Applying, Denying):
		return syncing
	}
	return Active
}

func (a *Access) has(states ...string) bool {
	return slices.ContainsFunc(a.Rules, func(r *Rule) bool { return slices.Contains(states, r.State) })
}

// Level returns what a client may do, "rw", "ro" or "". The smallest network decides; if several
// levels contain the client, backends choose differently, so nothing may depend on that. A rule for
// all addresses of one family admits the other one, too: Manila's helper for exports of Linux
// writes an asterisk for both.
func (a *Access) Level(client netip.Addr) (level string) {
	bits := -1
	for _, rule := range a.Rules {
		if !rule.exported || rule.Type != "ip" ||
			!rule.network.Contains(client.Unmap()) && rule.network.Bits() > 0 {
			continue
		}
		if rule.network.Bits() > bits {
			level, bits = rule.Level, rule.network.Bits()
		}
	}
	return level
}

// equals returns whether Manila would call another rule a duplicate: it compares networks.
func (r *Rule) equals(other *Rule) bool {
	return r.Type == other.Type && (r.To == other.To || r.Type == "ip" && r.network == other.network)
}

// network parses an address or a network without host bits.
func network(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err == nil && network.Masked() != network {
		err = errors.New(text + " has host bits set")
	}
	return network, err
}
