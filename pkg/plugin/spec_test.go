package plugin

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// The definition of the object can be of another release, whose fields have other types.
func TestFieldOfAnotherTypeIsNotDropped(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]map[string]any{
		"another field": {
			"kubeletDir": 5, "blockStorage": map[string]any{"rescanOnResize": true},
		},
		"its own": {"blockStorage": "rescan"},
	} {
		conf := keysOf(choice.Cinder, spec)[CloudConfKey]
		good := strings.HasPrefix(conf, "[BlockStorage]\n")
		assert.Check(t, conf != "" && good == (name == "another field"), "%s: %q", name, conf)
	}
}
