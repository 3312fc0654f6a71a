package docs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/openstack/accessrule"
	"github.com/openstack-csi/csi-operator/test/openstack/accessrules"
)

const requestsPage = "docs/openstack-requests.md"

// The example is for all programs with all operations.
func TestExampleOfAccessRulesPermitsTheRequestsOfThePage(t *testing.T) {
	t.Parallel()
	page := read(t, requestsPage)
	_, example, _ := strings.Cut(page, "<<END\n")
	example, _, _ = strings.Cut(example, "END\n")
	var rules accessrule.Rules
	assert.NilError(t, json.Unmarshal([]byte(example), &rules))
	needed, err := accessrule.Parse(page, "Requests that need a rule")
	assert.NilError(t, err)
	forbidden, unused := accessrules.Compare(rules, accessrules.Calls(needed))
	assert.Check(t, len(forbidden) == 0 && len(unused) == 0,
		"the example permits none of %q, and contains %v, which nothing sends", forbidden, unused)
}
