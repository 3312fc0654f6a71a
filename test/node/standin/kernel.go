package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// kernel implements mounts.
type kernel struct{}

// Bind mounts a folder. The kernel makes a bind mount read-only only in a second step.
func (k kernel) Bind(folder, target string, readOnly bool) error {
	if err := unix.Mount(folder, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding %s at %s: %w", folder, target, err)
	}
	if !readOnly {
		return nil
	}
	err := unix.MountSetattr(unix.AT_FDCWD, target, 0,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err != nil {
		return errors.Join(fmt.Errorf("making %s read-only: %w", target, err), k.Unmount(target))
	}
	return nil
}

// Unmount unmounts a target.
func (kernel) Unmount(target string) error {
	return unix.Unmount(target, 0)
}

// Mounted returns whether a target is the root of a mount.
func (kernel) Mounted(target string) (bool, error) {
	mounted, err := mountinfo.Mounted(target)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return mounted, err
}
