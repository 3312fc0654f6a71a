package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/openstack-csi/csi-operator/test/node"
	"github.com/openstack-csi/csi-operator/test/node/images"
)

// Folders contain what real nodes need.
type Folders struct {
	// Source is the source tree, which contains the images that `make node-images` built.
	Source string
	// Programs is the folder that `make build` filled, Nodes the folder that `make node` filled.
	Programs, Nodes string
}

// RealNodes returns a number of real nodes. It fails if something is missing to run them.
func RealNodes(count int, folders Folders) (Nodes, error) {
	if err := node.Check(folders.Nodes); err != nil {
		return Nodes{}, err
	}
	nodes := Nodes{
		Count: count, Programs: folders.Nodes,
		Supervisor: filepath.Join(folders.Programs, "devnode"),
	}
	return nodes, nodes.addImages(folders.Source)
}

// addImages adds the images that `make node-images` built in the source tree.
func (n *Nodes) addImages(source string) error {
	all, err := images.List(source)
	if err != nil {
		return fmt.Errorf("listing the images of a node: %w", err)
	}
	for _, image := range all {
		if _, err := os.Stat(image.File); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("image %s is missing: `make node-images` builds %s",
				image.Name, image.File)
		}
		n.Images = append(n.Images, image.File)
		if strings.Contains(image.Name, "/pause:") {
			n.Sandbox = image.Name
		}
	}
	return nil
}
