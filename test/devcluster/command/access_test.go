package command

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
)

func TestRunPrintsTheKubeconfigOfEachCluster(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	showAccess(&out, "/state", []*cluster.Environment{
		{Dir: "/state/guests/guest-1", Guest: "guest-1"},
	})
	const want = "export KUBECONFIG=/state/admin.kubeconfig\n" +
		"export KUBECONFIG=/state/guests/guest-1/admin.kubeconfig  # guest-1\n"
	assert.Check(t, is.Equal(strings.TrimSuffix(out.String(), "\n"), want))
}
