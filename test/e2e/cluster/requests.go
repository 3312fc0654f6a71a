package cluster

import (
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/docs"
	"github.com/openstack-csi/csi-operator/pkg/openstack/accessrule"
	"github.com/openstack-csi/csi-operator/test/openstack/accessrules"
)

// MustHaveSentListedRequests checks that docs/openstack-requests.md contains each request that
// OpenStack has received: of the operators, of the drivers and of CSI-Addons.
func (c *Cluster) MustHaveSentListedRequests(t *testing.T) {
	t.Helper()
	page, err := accessrule.Parse(docs.Requests, "")
	assert.NilError(t, err)
	unlisted, unused := accessrules.Compare(page, c.Cloud().Counters().Calls)
	for _, call := range unlisted {
		t.Errorf("docs/openstack-requests.md has no row for %s", call)
	}
	t.Logf("rows of docs/openstack-requests.md without a request until now: %v", unused)
}
