package position

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Similar returns the name that is similar to one that does not exist, "" if none is, as cobra does
// with commands. Of several it is the one that shares most of both ends.
func Similar(names []string, name string) string {
	const longest = 63 // the comparison costs as much as the product of the lengths
	if len(name) > longest {
		return ""
	}
	known := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, one := range names {
		known.AddCommand(&cobra.Command{Use: one, Run: func(*cobra.Command, []string) {}})
	}
	similar := known.SuggestionsFor(name)
	if name == "" || len(similar) == 0 {
		return ""
	}
	shared := func(other string) (count int) {
		for count < len(name) && strings.HasPrefix(other, name[:count+1]) {
			count++
		}
		end := 0
		for end < len(name)-count && strings.HasSuffix(other[min(count, len(other)):],
			name[len(name)-end-1:]) {
			end++
		}
		return count + end
	}
	return slices.MaxFunc(similar, func(a, b string) int { return shared(a) - shared(b) })
}

// IsSpelling returns whether a name is another spelling of a known one: with other separators, in
// capitals or in the singular. More may surround a known name of several words, as in the names of
// parameters of StorageClasses.
func IsSpelling(known, name string) bool {
	plain := func(text string) string {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "-", ""), "_", "")
		return strings.TrimSuffix(strings.ToLower(text), "s")
	}
	severalWords := strings.ToLower(known) != known
	return plain(name) == plain(known) ||
		severalWords && strings.Contains(plain(name), plain(known))
}
