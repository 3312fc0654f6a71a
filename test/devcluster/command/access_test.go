package command

import (
	"strings"
	"testing"

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
	if got := strings.TrimSuffix(out.String(), "\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
