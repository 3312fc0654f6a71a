package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/node"
)

// Values of --nodes.
const (
	simulatedNodes = "simulated"
	realNodes      = "real"
	// maxNodes is the number of real nodes that the addresses of a cluster allow.
	maxNodes = 9
)

// nodeOptions returns the real nodes that --nodes describes. It fails if something is missing to
// run them.
func (f *flags) nodeOptions(p places) (cluster.Nodes, error) {
	if f.nodes == simulatedNodes && f.csiAddons {
		return cluster.Nodes{}, fmt.Errorf("--csi-addons needs --nodes=%s: pods of simulated nodes run "+
			"no programs", realNodes)
	}
	if f.nodes == simulatedNodes {
		return cluster.Nodes{}, nil
	}
	kind, number, several := strings.Cut(f.nodes, ":")
	count, err := 1, error(nil)
	if several {
		count, err = strconv.Atoi(number)
	}
	if kind != realNodes || err != nil || count < 1 || count > maxNodes {
		return cluster.Nodes{}, fmt.Errorf("--nodes is %q: set it to %s, %s or %s:N, N from 1 to %d",
			f.nodes, simulatedNodes, realNodes, realNodes, maxNodes)
	}
	if f.flavour != standalone {
		return cluster.Nodes{}, fmt.Errorf("--nodes=%s needs flavour %s", f.nodes, standalone)
	}
	if f.check {
		return cluster.Nodes{Count: count}, node.CheckMachine()
	}
	return cluster.RealNodes(count, cluster.Folders{
		Source: p.source, Programs: p.bin, Nodes: p.nodePrograms,
	})
}
