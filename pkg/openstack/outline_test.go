package openstack

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
)

// Whoever writes the Secret of a guest cluster chooses the number of entries.
func TestCloudsWithTooManyEntriesAreNotOutlined(t *testing.T) {
	t.Parallel()
	var file clientconfig.Clouds
	got, err := decodeClouds([]byte(manyClouds(maxNodes/2)), &file)
	if err == nil || !strings.Contains(err.Error(), "too many entries") {
		t.Errorf("got error %v, want too many entries", err)
	}
	if got.fields != nil {
		t.Errorf("the fields of %d entries were searched", len(got.fields))
	}
}

func BenchmarkDecodeCloudsWithManyEntries(b *testing.B) {
	text := []byte(manyClouds(maxNodes/2 - 10))
	for b.Loop() {
		var file clientconfig.Clouds
		if _, err := decodeClouds(text, &file); err != nil {
			b.Fatal(err)
		}
	}
}

func manyClouds(entries int) string {
	var text strings.Builder
	text.WriteString("clouds: {")
	for i := range entries {
		fmt.Fprintf(&text, "%x: ,", i)
	}
	text.WriteString("}\n")
	return text.String()
}
