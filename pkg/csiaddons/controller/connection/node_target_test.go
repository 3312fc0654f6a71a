package connection

import (
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
)

// The texts of a CSIAddonsNode can be large. An event has at most 1,024 bytes.
func TestMessagesOfProblemsAreLimited(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a", strings.Repeat("a", 1<<20), strings.Repeat("ü", 1<<20)} {
		got := problemf(ReasonNotOwned, "Pod %s", text).Error()
		assert.Check(t, len(got) <= 1024 && utf8.ValidString(got) && strings.HasPrefix(got, "Pod "),
			"the message has %d bytes: %.100q", len(got), got)
	}
}
