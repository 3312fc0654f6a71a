package manila

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// overlapsAny returns whether a network has an address in common with one of the others.
func overlapsAny(network netip.Prefix, others []netip.Prefix) bool {
	return slices.ContainsFunc(others, network.Overlaps)
}

// without removes networks from a set, and returns the rest: as few networks as possible, in
// ascending order.
func without(set *netipx.IPSetBuilder, others []netip.Prefix) ([]netip.Prefix, error) {
	for _, other := range others {
		set.RemovePrefix(other)
	}
	rest, err := set.IPSet()
	if err != nil {
		return nil, fmt.Errorf("removing the fenced networks: %w", err)
	}
	return rest.Prefixes(), nil
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
