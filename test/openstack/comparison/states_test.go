//go:build openstack

package comparison

import (
	"encoding/json"
	"os/exec"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/test/openstack/sharestate"
)

// The lists decide when the simulator refuses access rules. They differ between releases of Manila,
// so the adapter must not contain them.
func TestStatesOfSharesAreThoseOfManila(t *testing.T) {
	t.Parallel()
	const program = `
import json
from manila.common import constants
print(json.dumps({
    "transitional": constants.TRANSITIONAL_STATUSES,
    "refusing": constants.INVALID_SHARE_INSTANCE_STATUSES_FOR_ACCESS_RULE_UPDATES,
    "rules": constants.ACCESS_RULES_STATES,
}))`
	output, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", program).Output()
	check(t, err)
	manila := map[string][]string{}
	check(t, json.Unmarshal(output, &manila))
	assert.Check(t, is.DeepEqual(map[string][]string{
		"transitional": sharestate.Transitional(), "refusing": sharestate.RefusingRules(),
		"rules": sharestate.RuleStates(),
	}, manila))
}
