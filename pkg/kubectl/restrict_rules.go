package kubectl

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// mayRevoke returns an error if a pod could lose its mount: a rule is missing, or nobody has seen
// that a node mounts a share by the rules, because Manila may see another address of it.
func (r *restriction) mayRevoke(ctx context.Context, chosen []*mount) error {
	var using []string
	for _, m := range chosen {
		if !r.isGranted(m) {
			return fmt.Errorf("the share of %s lacks an active rule: run the command without --revoke "+
				"first", m.claim)
		}
		for _, other := range r.mounts { // several PersistentVolumes may name one share
			if other.share == m.share {
				using = append(using, other.using...)
			}
		}
	}
	slices.Sort(using)
	using = slices.Compact(using)
	unseen := func(node string) bool { return slices.Contains(using, node) && !r.seen[node] }
	for _, m := range r.mounts {
		if !slices.ContainsFunc(m.running, unseen) {
			continue
		}
		if isOpen, err := r.isOpen(ctx, m); err != nil || isOpen || !r.areOnly(m.rules) {
			continue // its rules say nothing about the nodes
		}
		for _, node := range m.running {
			r.seen[node] = true
		}
	}
	left := slices.DeleteFunc(using, func(node string) bool { return r.seen[node] })
	if len(left) > 0 {
		return fmt.Errorf("nobody has seen that these nodes can mount a share that only %s may mount, "+
			"because Manila may see another address: %s. Run a pod with such a share on each: %s",
			strings.Join(r.to, ", "), diagnosis.List(left),
			version.Page("docs/manila.md#restrict-access-to-shares"))
	}
	return nil
}

// areOnly returns whether rules are only for parts of the networks.
func (r *restriction) areOnly(rules []shares.AccessRule) bool {
	return len(rules) > 0 && !slices.ContainsFunc(rules, func(rule shares.AccessRule) bool {
		to, err := wire.ParseNetwork(rule.To)
		return err != nil || rule.Type != "ip" ||
			!slices.ContainsFunc(r.networks, func(network netip.Prefix) bool {
				return network.Bits() <= to.Bits() && network.Contains(to.Addr())
			})
	})
}

// missing returns the networks that no rule of a share admits as the rule for every address does.
func (r *restriction) missing(m *mount) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(r.networks), func(network netip.Prefix) bool {
		return slices.ContainsFunc(m.rules, func(rule shares.AccessRule) bool {
			to, err := wire.ParseNetwork(rule.To)
			return err == nil && rule.Type == "ip" && to == network && rule.Level == m.level
		})
	})
}

func (r *restriction) grant(ctx context.Context, m *mount) error {
	for _, network := range r.missing(m) {
		to := strings.TrimSuffix(network.String(), fmt.Sprintf("/%d", network.Addr().BitLen()))
		err := r.manila.Grant(ctx, m.share, shares.AccessRule{Type: "ip", To: to, Level: m.level})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *restriction) revokeFrom(ctx context.Context, m *mount) error {
	for _, rule := range m.rules {
		if isForEverybody(rule) {
			if err := r.manila.Revoke(ctx, m.share, rule.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// isGranted returns whether the networks may mount a share, and Manila changes no rule.
func (r *restriction) isGranted(m *mount) bool {
	return len(r.missing(m)) == 0 && !slices.ContainsFunc(m.rules, func(rule shares.AccessRule) bool {
		return rule.State != "active"
	})
}

// isApplied returns whether Manila has applied what the command has requested for a share.
func (r *restriction) isApplied(ctx context.Context, m *mount) (bool, error) {
	isOpen, err := r.isOpen(ctx, m)
	for _, rule := range m.rules {
		if rule.State == "error" {
			return false, fmt.Errorf("Manila could not apply the rule for %q of share %s: remove it "+
				"with: openstack share access delete %s %s", rule.To, m.share, m.share, rule.ID)
		}
	}
	return r.isGranted(m) && isOpen != r.revoke, err
}
