package connection

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// The texts of a CSIAddonsNode can be large. An event has at most 1,024 bytes.
func TestMessagesOfProblemsAreLimited(t *testing.T) {
	t.Parallel()
	_, err := wire.ParseEndpoint(strings.Repeat("\x00", 1<<20))
	if err == nil {
		t.Fatal("the endpoint is accepted")
	}
	for _, got := range []*problem{
		problemf(ReasonBadEndpoint, "%v", err),
		problemf(ReasonNotAllowed, "The controller does not serve %s", strings.Repeat("ü", 1<<20)),
	} {
		if len(got.message) > 1024 || !utf8.ValidString(got.message) || got.message == "" {
			t.Errorf("%s has a message of %d bytes: %.100q", got.reason, len(got.message), got.message)
		}
	}
	if got := problemf(ReasonNotOwned, "Pod %s does not", "a").message; got != "Pod a does not" {
		t.Errorf("a short message becomes %q", got)
	}
}
