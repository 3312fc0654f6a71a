//go:build openstack

package comparison

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// TestRecordedMessagesAreThoseOfTheServices compares the list of messages that the tool judges with
// the installed services.
func TestRecordedMessagesAreThoseOfTheServices(t *testing.T) {
	t.Parallel()
	const root = "../../../"
	recorded, err := os.ReadFile(root + "pkg/kubectl/meaning/testdata/universe/openstack.txt")
	assert.NilError(t, err)
	list := exec.CommandContext(t.Context(), "python3", root+"hack/universe/openstack.py")
	said, err := list.Output()
	assert.NilError(t, err)
	assert.Assert(t, len(said) > 0 && strings.HasSuffix(string(recorded), string(said)),
		"run make universe")
}
