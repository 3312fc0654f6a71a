package docs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/test/openstack/accessrules"
)

const requestsPage = "docs/openstack-requests.md"

// The example is for all programs with all operations.
func TestExampleOfAccessRulesPermitsTheRequestsOfThePage(t *testing.T) {
	t.Parallel()
	page := read(t, requestsPage)
	_, example, _ := strings.Cut(page, "<<END\n")
	example, _, _ = strings.Cut(example, "END\n")
	var rules accessrules.Rules
	if err := json.Unmarshal([]byte(example), &rules); err != nil {
		t.Fatal(err)
	}
	needed, err := accessrules.Parse(page, "Requests that need a rule")
	if err != nil {
		t.Fatal(err)
	}
	forbidden, unused := rules.Compare(needed.Calls())
	if len(forbidden) > 0 || len(unused) > 0 {
		t.Errorf("the example permits none of %q, and contains %v, which nothing sends", forbidden,
			unused)
	}
}
