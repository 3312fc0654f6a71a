package node

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/openstack-csi/csi-operator/test/node/loop"
)

// serialLength is the length of a disk's serial number in virtio: Nova writes the beginning of the
// volume ID.
const serialLength = 20

// Attach makes a loop device of the file, and the name in the node's /dev/disk/by-id that Nova and
// udev give to a volume. It returns the device, which stays if the volume is attached already.
func (n *Node) Attach(_ context.Context, volumeID, file string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if device, attached := n.volumes[volumeID]; attached {
		return device.Name(), nil
	}
	device, err := loop.Attach(file)
	if err != nil {
		return "", err
	}
	err = os.Symlink(device.Name(), n.path(diskName(volumeID)))
	if err != nil {
		return "", errors.Join(fmt.Errorf("naming the device of volume %s: %w", volumeID, err),
			device.Close())
	}
	n.volumes[volumeID] = device
	return device.Name(), nil
}

// Detach removes the device of a volume, if the volume is attached.
func (n *Node) Detach(_ context.Context, volumeID string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	device, attached := n.volumes[volumeID]
	if !attached {
		return nil
	}
	delete(n.volumes, volumeID)
	return errors.Join(os.Remove(n.path(diskName(volumeID))), device.Close())
}

// Resize adapts the device of a volume to the size of its file.
func (n *Node) Resize(_ context.Context, volumeID string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	device, attached := n.volumes[volumeID]
	if !attached {
		return fmt.Errorf("volume %s is not attached to node %s", volumeID, n.options.Name)
	}
	return device.Resize()
}

// closeVolumes closes all devices of a node that has ended.
func (n *Node) closeVolumes() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for id, device := range n.volumes {
		errs = append(errs, device.Close())
		delete(n.volumes, id)
	}
	return errors.Join(errs...)
}

// diskName returns the name of a volume in the node.
func diskName(volumeID string) string {
	return "/dev/disk/by-id/virtio-" + volumeID[:min(serialLength, len(volumeID))]
}
