package manila

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// plan is how the access rules of one share change. The steps are in this order, so that a client
// that is not fenced has access at any time, and so that the record always contains what a fence
// has revoked.
type plan struct {
	share openstack.Share
	// before is the record that is written first.
	before record
	// replaced are the IDs of rules that Manila could not apply, and that are granted again.
	replaced []string
	granted  []openstack.AccessRule
	// revoked are the IDs of rules.
	revoked []string
	// after is the record that is written last. It is removed if it contains no rules.
	after record
}

// changes returns whether the plan has a step.
func (p plan) changes() bool {
	return len(p.replaced)+len(p.granted)+len(p.revoked) > 0 ||
		p.share.Metadata[fencedKey] != "" || p.share.Metadata[revokedKey] != ""
}

// newPlan returns how the access rules of a share change so that exactly the target is fenced. All
// requests about the rules must be complete. limit is the maximum number of rules of a share while
// the fence is established; 0 means no limit.
func newPlan(share openstack.Share, rules []openstack.AccessRule, target []netip.Prefix, limit int,
) (plan, error) {
	p := plan{share: share}
	old, err := readRecord(share)
	if err != nil {
		return p, err
	}
	current, err := parseRules(share, rules, limit > 0)
	if err != nil {
		return p, err
	}
	originals := slices.Clone(old.revoked)
	for _, c := range current {
		if !c.added && overlapsAny(c.network, target) && !slices.Contains(originals, c.rule) {
			originals = append(originals, c.rule)
		}
	}
	remaining := limit - len(rules)
	wanted, err := wantedRules(originals, target, limit)
	if err != nil {
		return p, fmt.Errorf("share %s: %w", share.ID, err)
	}
	p.compare(current, wanted, target, old.revoked)
	if limit > 0 && len(p.granted) > remaining {
		return p, fmt.Errorf("share %s: the fence needs %d more access rules, and the share has %d: the "+
			"limit is %d (flag --max-access-rules)", share.ID, len(p.granted), len(rules), limit)
	}
	// Until the access is restored, the record says that clients are fenced.
	p.before = record{fenced: sorted(slices.Concat(old.fenced, target)), revoked: originals}
	p.after = record{fenced: target, revoked: slices.DeleteFunc(slices.Clone(originals),
		func(r rule) bool { return !overlapsAny(r.network, target) })}
	if _, err := p.before.metadata(); err != nil && limit > 0 {
		return p, fmt.Errorf("share %s: %w", share.ID, err)
	}
	return p, nil
}

// currentRule is an access rule of type ip that a share has.
type currentRule struct {
	rule

	id string
	// added means that a fence has added the rule.
	added bool
	// failed means that Manila could not apply the rule.
	failed bool
}

// parseRules returns the rules of type ip. Rules of other types do not depend on the address of a
// client: they are an error for a new fence.
func parseRules(share openstack.Share, rules []openstack.AccessRule, fencing bool,
) ([]currentRule, error) {
	current := make([]currentRule, 0, len(rules))
	for _, r := range rules {
		if r.Type != ipType {
			if fencing {
				return nil, fmt.Errorf("share %s has an access rule of type %s: a fence of addresses cannot "+
					"revoke it. Remove the rule", share.ID, r.Type)
			}
			continue
		}
		network, err := parseNetwork(r.To)
		if err != nil {
			return nil, fmt.Errorf("reading an access rule of share %s: %w", share.ID, err)
		}
		current = append(current, currentRule{
			rule: rule{to: r.To, network: network, level: r.Level}, id: r.ID,
			added: r.Metadata[addedKey] == addedValue, failed: r.State == failedState,
		})
	}
	return current, nil
}

// wantedRule is a rule that a share needs.
type wantedRule struct {
	rule

	// part means that the rule is a part of an original rule.
	part bool
}

// wantedRules returns the original rules, each without the target. A rule for a network takes
// precedence over a part of another rule with the same network.
func wantedRules(originals []rule, target []netip.Prefix, limit int) ([]wantedRule, error) {
	if limit == 0 {
		limit = noLimit
	}
	wanted, index := []wantedRule{}, map[netip.Prefix]int{}
	for _, original := range originals {
		if !overlapsAny(original.network, target) {
			index[original.network] = len(wanted)
			wanted = append(wanted, wantedRule{rule: original})
		}
	}
	for _, original := range originals {
		if !overlapsAny(original.network, target) {
			continue
		}
		parts, ok := without(original.network, target, limit)
		if !ok {
			return nil, fmt.Errorf("the access rule for %s minus the fenced clients takes more than %d "+
				"rules (flag --max-access-rules)", original.network, limit)
		}
		for _, network := range parts {
			part := wantedRule{rule{network.String(), network, original.level}, true}
			i, exists := index[network]
			switch {
			case !exists:
				index[network] = len(wanted)
				wanted = append(wanted, part)
			case wanted[i].part && part.level == readWrite:
				wanted[i] = part
			}
		}
	}
	return wanted, nil
}

// noLimit is more rules than the limits of a record allow.
const noLimit = 1 << 20

// compare adds the differences between current and wanted rules to the plan.
func (p *plan) compare(
	current []currentRule, wanted []wantedRule, target []netip.Prefix, recorded []rule,
) {
	keep := map[string]bool{}
	for _, w := range wanted {
		i := slices.IndexFunc(current, func(c currentRule) bool { return c.network == w.network })
		if i >= 0 {
			c := current[i]
			own := c.added || slices.Contains(recorded, c.rule)
			if !own || (!c.failed && c.level == w.level && c.added == w.part) {
				keep[c.id] = true
				continue
			}
			p.replaced = append(p.replaced, c.id)
		}
		granted := openstack.AccessRule{Type: ipType, To: w.to, Level: w.level}
		if w.part {
			granted.Metadata = map[string]string{addedKey: addedValue}
		}
		p.granted = append(p.granted, granted)
	}
	for _, c := range current {
		if keep[c.id] || slices.Contains(p.replaced, c.id) {
			continue
		}
		if c.added || overlapsAny(c.network, target) {
			p.revoked = append(p.revoked, c.id)
		}
	}
}
