package accessrules_test

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack/accessrule"
	"github.com/openstack-csi/csi-operator/test/openstack/accessrules"
)

func TestCompareFindsRequestsWithoutRuleAndRulesWithoutRequest(t *testing.T) {
	t.Parallel()
	rules := accessrule.Rules{
		{Service: "sharev2", Method: "GET", Path: "/v2/shares/*"},
		{Service: "sharev2", Method: "GET", Path: "/v2/types"},
		{Service: "volumev3", Method: "GET", Path: "/v3/*/types"},
		{Service: "identity", Method: "GET", Path: "/v3/**"},
	}
	forbidden, unused := accessrules.Compare(rules, map[string]int{
		"GET /share/v2/shares/a-1": 2, "GET /share/v2/shares/a-1/metadata": 1,
		"POST /share/v2/shares/a-1": 1, "GET /volume/v3/0123456789abcdef0123456789abcdef/types": 1,
		"GET /volume/v3/types": 1, "GET /volume/v2/types": 1, "GET /identity/v3/auth/catalog": 1,
		"GET /openstack/latest/meta_data.json": 1,
	})
	want := []string{
		"GET /share/v2/shares/a-1/metadata", "GET /volume/v2/types", "POST /share/v2/shares/a-1",
	}
	assert.Check(t, is.DeepEqual(want, forbidden), "forbidden")
	assert.Check(t, is.DeepEqual(rules[1:2], unused), "unused")
}
