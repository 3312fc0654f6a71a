package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// serialLength is the length of a disk's serial number in virtio: Nova writes the beginning of the
// volume ID.
const serialLength = 20

// Disks are the loop devices of the volumes of one server. NewDisks creates them; they are safe for
// concurrent use.
type Disks struct {
	folder string

	mu      sync.Mutex
	volumes map[string]*Device // by ID
}

// NewDisks returns no disks yet. The folder is /dev/disk/by-id of the server, as this process sees
// it.
func NewDisks(folder string) *Disks {
	return &Disks{folder: folder, volumes: map[string]*Device{}}
}

// Attach makes a loop device of the file, and the name in the folder that Nova and udev give to a
// volume. It returns the device, which stays if the volume is attached already.
func (d *Disks) Attach(_ context.Context, volumeID, file string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if device, attached := d.volumes[volumeID]; attached {
		return device.Name(), nil
	}
	device, err := Attach(file)
	if err != nil {
		return "", err
	}
	if err = os.Symlink(device.Name(), d.link(volumeID)); err != nil {
		return "", errors.Join(fmt.Errorf("naming the device of volume %s: %w", volumeID, err),
			device.Close())
	}
	d.volumes[volumeID] = device
	return device.Name(), nil
}

// Detach removes the device of a volume, if the volume is attached.
func (d *Disks) Detach(_ context.Context, volumeID string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	device, attached := d.volumes[volumeID]
	if !attached {
		return nil
	}
	delete(d.volumes, volumeID)
	return errors.Join(os.Remove(d.link(volumeID)), device.Close())
}

// Resize adapts the device of a volume to the size of its file.
func (d *Disks) Resize(_ context.Context, volumeID string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	device, attached := d.volumes[volumeID]
	if !attached {
		return fmt.Errorf("volume %s is not attached", volumeID)
	}
	return device.Resize()
}

// Close closes all devices, of a server whose folder does not exist any more.
func (d *Disks) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for id, device := range d.volumes {
		errs = append(errs, device.Close())
		delete(d.volumes, id)
	}
	return errors.Join(errs...)
}

// link returns the name of a volume.
func (d *Disks) link(volumeID string) string {
	return filepath.Join(d.folder, "virtio-"+volumeID[:min(serialLength, len(volumeID))])
}
