package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/node"
	"github.com/openstack-csi/csi-operator/test/node/images"
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
	if err := node.Check(p.nodePrograms); err != nil {
		return cluster.Nodes{}, err
	}
	return p.withImages(cluster.Nodes{
		Count: count, Programs: p.nodePrograms, Supervisor: filepath.Join(p.bin, "devnode"),
	})
}

// withImages adds the images that `make node-images` built in the source tree.
func (p places) withImages(nodes cluster.Nodes) (cluster.Nodes, error) {
	all, err := images.List(p.source)
	if err != nil {
		return nodes, fmt.Errorf("listing the images of a node: %w", err)
	}
	for _, image := range all {
		if _, err := os.Stat(image.File); errors.Is(err, fs.ErrNotExist) {
			return nodes, fmt.Errorf("image %s is missing: `make node-images` builds %s",
				image.Name, image.File)
		}
		nodes.Images = append(nodes.Images, image.File)
		if strings.Contains(image.Name, "/pause:") {
			nodes.Sandbox = image.Name
		}
	}
	return nodes, nil
}
