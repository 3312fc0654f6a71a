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

// Disks are the loop devices of the volumes of one server. They are safe for concurrent use.
type Disks struct {
	mu      sync.Mutex
	volumes map[string]*Device // by ID
	folder  string             // /dev/disk/by-id of the server, "" while it has no power
}

// NewDisks returns no disks yet. The folder is /dev/disk/by-id of the server, as this process sees
// it, or "" if the server has no power.
func NewDisks(folder string) *Disks {
	return &Disks{folder: folder, volumes: map[string]*Device{}}
}

// PowerOn gives the server the names of its volumes in its folder.
func (d *Disks) PowerOn(folder string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.folder = folder
	for id, device := range d.volumes {
		if err := d.name(id, device); err != nil {
			return err
		}
	}
	return nil
}

// PowerOff forgets the names, which a server without power does not have. The volumes stay
// attached, and others can be attached.
func (d *Disks) PowerOff() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.folder = ""
}

// Abandon shuts file systems of volumes down, as a loss of power does: what they have not written
// yet is lost. The folders are mount points by the numbers of their devices.
func (d *Disks) Abandon(folders map[uint64]string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, device := range d.volumes {
		if folder, mounted := folders[device.id()]; mounted {
			if err := shutDown(folder); err != nil {
				return err
			}
		}
	}
	return nil
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
	if err = d.name(volumeID, device); err != nil {
		return "", errors.Join(err, device.Close())
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
	if d.folder == "" {
		return device.Close()
	}
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

// name gives the volume its name, if the server has power.
func (d *Disks) name(volumeID string, device *Device) error {
	if d.folder == "" {
		return nil
	}
	if err := os.Symlink(device.Name(), d.link(volumeID)); err != nil {
		return fmt.Errorf("naming the device of volume %s: %w", volumeID, err)
	}
	return nil
}

func (d *Disks) link(volumeID string) string {
	return filepath.Join(d.folder, "virtio-"+volumeID[:min(serialLength, len(volumeID))])
}
