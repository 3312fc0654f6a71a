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

func TestDisksAreNamedAsNovaAndUdevDo(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"0b1b7a2e-6d2a-4c34-9d0b-f2a1c3d4e5f6": "/dev/disk/by-id/virtio-0b1b7a2e-6d2a-4c34-9",
		"short":                                "/dev/disk/by-id/virtio-short",
	} {
		if got := diskName(id); got != want {
			t.Errorf("the disk of volume %s is %s, want %s", id, got, want)
		}
	}
}
