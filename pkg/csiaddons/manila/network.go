package manila

import (
	"net/netip"
	"slices"
	"strings"
)

// overlapsAny returns whether a network has an address in common with one of the others.
func overlapsAny(network netip.Prefix, others []netip.Prefix) bool {
	return slices.ContainsFunc(others, network.Overlaps)
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
