package accessrule_test

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/docs"
	"github.com/openstack-csi/csi-operator/pkg/openstack/accessrule"
)

const project = "6d9cb7b0f6c74cd5a7cd3d4d3ac6f4a1"

// Without one rule the operation of this rule is refused, and no other, in each form that the paths
// of rules have.
func TestRefusedNamesTheRowsThatNoRulePermits(t *testing.T) {
	t.Parallel()
	rows, err := accessrule.Parse(docs.Requests, "Requests that need a rule")
	assert.NilError(t, err)
	for name, form := range map[string]*strings.Replacer{
		"the page": strings.NewReplacer(), "names": strings.NewReplacer("*", "{id}"),
		"the project":        strings.NewReplacer("/v3/*/", "/v3/"+project+"/"),
		"no project":         strings.NewReplacer("/v3/*/", "/v3/"),
		"a project for Nova": strings.NewReplacer("/v2.1/", "/v2.1/*/"),
		"a prefix": strings.NewReplacer("/v3/*/", "/volume/v3/*/", "/v2.1/",
			"/compute/v2.1/"),
		"types of other configs": strings.NewReplacer("sharev2", "share", "volumev3", "block-storage"),
	} {
		for without := range rows {
			rules := slices.Clone(rows)
			for i := range rules {
				rules[i].Path = form.Replace(rules[i].Path)
				rules[i].Service = form.Replace(rules[i].Service)
			}
			var want accessrule.Rules
			if !strings.HasSuffix(rows[without].Path, "s/detail") { // which the rule of an ID permits, too
				want = accessrule.Rules{rows[without]}
			}
			got := slices.Delete(rules, without, without+1).Refused(rows, project)
			assert.Check(t, is.DeepEqual(want, got), "%s: without %v", name, rows[without])
		}
	}
}
