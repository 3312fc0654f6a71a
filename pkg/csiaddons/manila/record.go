package manila

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
)

// The keys of the metadata of a share that contain its record, and the metadata of an access rule
// that a fence has added. The names contain no slash, because they are part of URLs.
const (
	fencedKey  = "csi-addons-fenced-networks"
	revokedKey = "csi-addons-revoked-rules"
	addedKey   = "csi-addons-added-by"
	addedValue = "network-fence"
)

// record is what a share remembers while clients are fenced. It is in the metadata of the share, so
// it survives restarts and ends with the share.
type record struct {
	// fenced are the networks of the clients.
	fenced []netip.Prefix
	// revoked are the access rules to restore: those that overlap fenced.
	revoked []rule
}

// rule is an access rule of type ip.
type rule struct {
	// to is the text in the access rule, and network what it means.
	to      string
	network netip.Prefix
	level   string
}

// readRecord reads the record of a share. It accepts only what writeRecord writes.
func readRecord(share shares.Share) (r record, err error) {
	for _, text := range split(share.Metadata[fencedKey]) {
		network, err := wire.ParseNetwork(text)
		if err != nil {
			return r, fmt.Errorf("reading %s in its metadata: %w", fencedKey, err)
		}
		r.fenced = append(r.fenced, network)
	}
	r.fenced = sorted(r.fenced)
	for _, text := range split(share.Metadata[revokedKey]) {
		level, to, _ := strings.Cut(text, " ")
		network, err := wire.ParseNetwork(to)
		if err != nil || (level != readOnly && level != readWrite) {
			return r, fmt.Errorf("reading %s in its metadata: %q is not an access rule", revokedKey, text)
		}
		r.revoked = append(r.revoked, rule{to: to, network: network, level: level})
	}
	return r, nil
}

// checkRecord returns an error if somebody has changed the record of a share: nobody can read it,
// or a rule that a fence has added is a part of no recorded or present rule. To revoke this part
// would leave clients without access that no fence contains.
func checkRecord(share shares.Share, rules []shares.AccessRule) error {
	r, err := readRecord(share)
	if err != nil {
		return err
	}
	var parts []netip.Prefix
	for _, one := range rules {
		network, err := wire.ParseNetwork(one.To)
		switch {
		case one.Type != ipType || err != nil:
		case one.Metadata[addedKey] == addedValue:
			parts = append(parts, network)
		default:
			r.revoked = append(r.revoked, rule{network: network})
		}
	}
	for _, part := range parts {
		if !slices.ContainsFunc(r.revoked, func(whole rule) bool {
			return whole.network.Bits() <= part.Bits() && whole.network.Overlaps(part)
		}) {
			return fmt.Errorf("somebody has removed from %s in its metadata the access rule that contains "+
				"%s: grant this rule again", revokedKey, part)
		}
	}
	return nil
}

// The levels of access rules.
const (
	readOnly  = "ro"
	readWrite = "rw"
)

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// recordKeys returns the keys of a record in the order in which they are removed: rules to restore
// without a fence do no harm, and by the mark a later operation finds the rest.
func recordKeys() []string { return []string{fencedKey, revokedKey, shares.FenceKey} }

// hasRecord returns whether the record in the metadata of a share has exactly these entries.
func hasRecord(share shares.Share, entries map[string]string) bool {
	return !slices.ContainsFunc(recordKeys(), func(key string) bool {
		return share.Metadata[key] != entries[key]
	})
}

// metadata returns the entries of a record of a cluster. There are none if no rule is revoked.
func (r record) metadata(cluster string) (map[string]string, error) {
	if len(r.revoked) == 0 || len(r.fenced) == 0 {
		return nil, nil
	}
	rules := make([]string, 0, len(r.revoked))
	for _, revoked := range r.revoked {
		rules = append(rules, revoked.level+" "+revoked.to)
	}
	slices.Sort(rules)
	entries := map[string]string{
		fencedKey: join(r.fenced), revokedKey: strings.Join(rules, ","), shares.FenceKey: cluster,
	}
	for key, value := range entries {
		if len(value) > shares.MaxMetadataValue {
			return nil, fmt.Errorf("the record does not fit into its metadata: %s has %d "+
				"characters, the limit is %d. Fence fewer or larger networks", key, len(value),
				shares.MaxMetadataValue)
		}
	}
	return entries, nil
}
