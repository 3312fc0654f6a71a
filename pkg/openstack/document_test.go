package openstack

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// Whoever writes the Secret of a guest cluster chooses the number of entries.
func TestCloudsWithTooManyEntriesAreNotDecoded(t *testing.T) {
	t.Parallel()
	_, err := readEntry([]byte(manyClouds(maxNodes / 2)))
	assert.Check(t, err != nil && strings.Contains(err.Error(), "too many entries"),
		"got error %v, want too many entries", err)
}

func BenchmarkReadEntryOfMany(b *testing.B) {
	text := []byte(manyClouds(maxNodes/2-10) + "  openstack: {}\n")
	for b.Loop() {
		if _, err := readEntry(text); err != nil {
			b.Fatal(err)
		}
	}
}

func manyClouds(entries int) string {
	var text strings.Builder
	text.WriteString("clouds:\n")
	for i := range entries {
		fmt.Fprintf(&text, "  %x:\n", i)
	}
	return text.String()
}
