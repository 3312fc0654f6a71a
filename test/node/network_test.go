package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClustersAndNodesHaveAddressesOfTheirOwn(t *testing.T) {
	t.Parallel()
	n := Network{number: 3, nodes: 2}
	got := []string{
		n.interfaceName(), n.cluster(), n.Machine(), n.address(1), n.pods(1), n.address(2), n.pods(2),
	}
	want := []string{
		"csi-cluster3", "10.103.0.0/16", "10.103.0.1", "10.103.0.11", "10.103.1.0/24",
		"10.103.0.12", "10.103.2.0/24",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	wantRoutes := map[string]string{"10.103.2.0/24": "10.103.0.12"}
	if diff := cmp.Diff(wantRoutes, n.routes(1)); diff != "" {
		t.Errorf("routes of node 1 (-want +got):\n%s", diff)
	}
}
