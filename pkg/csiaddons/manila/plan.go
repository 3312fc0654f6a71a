package manila

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
)

// plan is how the access rules of one share change. The steps are in this order, so that a client
// that is not fenced has access at any time, and so that the record always contains what a fence
// has revoked.
type plan struct {
	share shares.Share
	// target are the networks to fence.
	target []netip.Prefix
	// before is the record that is written first, as metadata.
	before map[string]string
	// failed are the IDs of rules that Manila could not apply, and that are granted again.
	failed  []string
	granted []shares.AccessRule
	// replaced are the IDs of rules whose level changes. They are revoked before others are granted,
	// because a share cannot have two rules for the same clients. Meanwhile the clients use the larger
	// rule that is the reason of the change: it is revoked later.
	replaced []string
	// revoked are the IDs of rules.
	revoked []string
	// after is the record that is written last. Without entries it is removed.
	after map[string]string
}

// changes returns whether the plan has a step.
func (p plan) changes() bool {
	return len(p.granted)+len(p.replaced)+len(p.revoked) > 0 || !hasRecord(p.share, p.after)
}

// newPlan returns how the access rules of a share change so that exactly the target of an operation
// is fenced. All requests about the rules must be complete.
func (w *worker) newPlan(share shares.Share, rules []shares.AccessRule, o operation,
) (plan, error) {
	old, err := readRecord(share)
	if err != nil {
		return plan{}, err
	}
	target := o.target(old)
	p := plan{share: share, target: target}
	current, err := parseRules(rules, o.fences())
	if err != nil {
		return p, err
	}
	originals, kept := originalRules(current, old.revoked, target)
	// Until the access is restored, the record says that clients are fenced. It also limits how many
	// networks there are.
	before := record{fenced: sorted(slices.Concat(old.fenced, target)), revoked: originals}
	if p.before, err = before.metadata(w.cluster); err != nil {
		return p, err
	}
	after := record{fenced: target, revoked: slices.DeleteFunc(slices.Clone(originals),
		func(r rule) bool { return !overlapsAny(r.network, target) })}
	if p.after, err = after.metadata(w.cluster); err != nil {
		return p, err
	}
	wanted, err := wantedRules(originals, kept, target)
	if err != nil {
		return p, err
	}
	p.compare(current, wanted, old.revoked)
	more := len(p.granted) - len(p.failed)
	if o.fences() && more > 0 && len(rules)+more > o.limit {
		return p, fmt.Errorf("the fence needs %d more access rules, and the share has %d: the limit is "+
			"%d (flag --max-access-rules)", more, len(rules), o.limit)
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
func parseRules(rules []shares.AccessRule, fencing bool) ([]currentRule, error) {
	current := make([]currentRule, 0, len(rules))
	for _, r := range rules {
		if r.Type != ipType {
			if fencing {
				return nil, fmt.Errorf("it has an access rule of type %s, which a fence of addresses cannot "+
					"revoke. Remove the rule", r.Type)
			}
			continue
		}
		network, err := wire.ParseNetwork(r.To)
		if err != nil {
			return nil, fmt.Errorf("reading an access rule: %w", err)
		}
		if fencing && r.Level != readOnly && r.Level != readWrite {
			return nil, fmt.Errorf("the access rule for %s has the unknown level %s", network, r.Level)
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

// originalRules returns the recorded rules and the rules of the share that overlap the target. A
// rule of the share replaces a recorded one for the same clients, because it was granted later.
// kept are the other rules of the share that no fence has added.
func originalRules(current []currentRule, recorded []rule, target []netip.Prefix,
) (originals, kept []rule) {
	originals = slices.Clone(recorded)
	for _, c := range current {
		switch {
		case c.added, slices.Contains(originals, c.rule):
		case overlapsAny(c.network, target):
			replaced := func(r rule) bool { return r.network == c.network }
			originals = append(slices.DeleteFunc(originals, replaced), c.rule)
		default:
			kept = append(kept, c.rule)
		}
	}
	return originals, kept
}

// wantedRules returns the original rules that do not overlap the target, and parts of the others,
// which contain the rest of their networks.
//
// If rules with different levels contain a client, the backend decides which one counts: Manila's
// driver for NetApp sorts their texts (netapp/dataontap/protocols/nfs_cmode.py), and in exports(5)
// an address takes precedence over networks. Here the smallest original or kept rule decides. No
// part overlaps a rule of another level, so the order of the backend does not matter.
func wantedRules(originals, kept []rule, target []netip.Prefix) ([]wantedRule, error) {
	all := slices.Concat(originals, kept)
	slices.SortStableFunc(all, func(a, b rule) int { return a.network.Bits() - b.network.Bits() })
	rest := map[string]*netipx.IPSetBuilder{readOnly: {}, readWrite: {}}
	for _, r := range all { // smaller rules replace a part of larger ones
		for level, set := range rest {
			switch {
			case level != r.level:
				set.RemovePrefix(r.network)
			case overlapsAny(r.network, target):
				set.AddPrefix(r.network)
			}
		}
	}
	var wanted []wantedRule
	exists := map[netip.Prefix]bool{}
	for _, original := range originals {
		if !overlapsAny(original.network, target) {
			exists[original.network] = true
			wanted = append(wanted, wantedRule{rule: original})
		}
	}
	for _, level := range []string{readOnly, readWrite} {
		for _, network := range target {
			rest[level].RemovePrefix(network)
		}
		parts, err := rest[level].IPSet()
		if err != nil {
			return nil, fmt.Errorf("removing the fenced networks: %w", err)
		}
		for _, network := range halved(parts.Prefixes()) {
			if !exists[network] {
				wanted = append(wanted, wantedRule{rule{network.String(), network, level}, true})
			}
		}
	}
	return wanted, nil
}

// halved replaces a network of all addresses of a family, which would be a rule for both families,
// by its halves.
func halved(networks []netip.Prefix) (parts []netip.Prefix) {
	for _, network := range networks {
		if network.Bits() > 0 {
			parts = append(parts, network)
			continue
		}
		for _, address := range []netip.Addr{network.Addr(), netipx.PrefixLastIP(network)} {
			parts = append(parts, netip.PrefixFrom(address, 1).Masked())
		}
	}
	return parts
}

// overlapsAny returns whether a rule for a network may admit a client of others. A rule for all
// addresses of one family may admit both: Manila's helper for exports of Linux writes an asterisk
// for it (manila/share/drivers/helpers.py).
func overlapsAny(network netip.Prefix, others []netip.Prefix) bool {
	return network.Bits() == 0 && len(others) > 0 ||
		slices.ContainsFunc(others, network.Overlaps)
}

// sorted returns networks in ascending order, each once.
func sorted(networks []netip.Prefix) []netip.Prefix {
	networks = slices.SortedFunc(slices.Values(networks), netip.Prefix.Compare)
	return slices.Compact(networks)
}

func join(networks []netip.Prefix) string {
	texts := make([]string, 0, len(networks))
	for _, network := range networks {
		texts = append(texts, network.String())
	}
	return strings.Join(texts, ",")
}

// compare adds the differences between current and wanted rules to the plan. recorded are original
// rules that a fence has revoked or was about to revoke.
func (p *plan) compare(current []currentRule, wanted []wantedRule, recorded []rule) {
	keep := map[string]bool{}
	for _, w := range wanted {
		granted := shares.AccessRule{Type: ipType, To: w.to, Level: w.level}
		if w.part {
			granted.Metadata = map[string]string{addedKey: addedValue}
		}
		i := slices.IndexFunc(current, func(c currentRule) bool { return c.network == w.network })
		if i < 0 {
			p.granted = append(p.granted, granted)
			continue
		}
		c := current[i]
		keep[c.id] = true
		own := c.added || slices.Contains(recorded, c.rule)
		switch {
		case !own: // a rule of somebody else for exactly these clients takes precedence
		case c.failed:
			p.failed, p.granted = append(p.failed, c.id), append(p.granted, granted)
		case c.level != w.level || c.added != w.part:
			p.replaced = append(p.replaced, c.id)
		}
	}
	for _, c := range current {
		if !keep[c.id] && (c.added || overlapsAny(c.network, p.target)) {
			p.revoked = append(p.revoked, c.id)
		}
	}
}
