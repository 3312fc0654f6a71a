package cinder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// staged is the file system of a staged volume. Nobody can unmount it until it is closed.
type staged struct {
	folder *os.File
	// size is the size of the device in bytes.
	size uint64
	// writes is the file in which ext4 counts what was written to the file system, in KiB.
	writes string
}

func (s *staged) close() { _ = s.folder.Close() } // it was only read

func (s *staged) usage() (usage, error) {
	var space unix.Statfs_t
	if err := unix.Fstatfs(int(s.folder.Fd()), &space); err != nil {
		return usage{}, status.Errorf(codes.Internal, "reading the usage of %s: %v", s.folder.Name(), err)
	}
	unit := uint64(space.Frsize)
	u := usage{used: (space.Blocks - space.Bfree) * unit, free: space.Bfree * unit}
	// Only ext4 counts. An older kernel or another file system has no such file.
	if kibibytes, err := number(s.writes); err == nil {
		u.written, u.counts = kibibytes<<10, true
	}
	return u, nil
}

// open opens the file system at a path, which must be that of the device of the volume. Errors are
// gRPC statuses.
func (f Folders) open(path, volumeID string) (*staged, error) {
	folder, err := f.openFolder(path)
	if err != nil {
		return nil, err
	}
	volume, err := f.describe(folder, volumeID)
	if err != nil {
		_ = folder.Close()
		return nil, err
	}
	return volume, nil
}

// openFolder opens a folder below the staging folder. No symbolic link leads out of it.
func (f Folders) openFolder(path string) (*os.File, error) {
	relative, err := filepath.Rel(f.Staging, path)
	if err != nil || !filepath.IsLocal(relative) {
		return nil, status.Errorf(codes.InvalidArgument,
			"the path of the volume is not a path below %s (flag --staging-path)", f.Staging)
	}
	folder, err := os.OpenInRoot(f.Staging, relative)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, status.Errorf(codes.NotFound, "no volume is staged at %s on this node", path)
	case err != nil:
		return nil, status.Errorf(codes.Internal, "opening %s: %v", path, err)
	}
	return folder, nil
}

// describe checks that the file system of a folder is on the device of a volume. What trim requests
// is about that file system.
func (f Folders) describe(folder *os.File, volumeID string) (*staged, error) {
	var info unix.Stat_t
	if err := unix.Fstat(int(folder.Fd()), &info); err != nil {
		return nil, status.Errorf(codes.Internal, "reading %s: %v", folder.Name(), err)
	}
	if err := f.identify(info.Dev, volumeID); err != nil {
		return nil, err
	}
	system := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(info.Dev), unix.Minor(info.Dev))
	sectors, err := number(filepath.Join(system, "size"))
	if err != nil {
		return nil, err
	}
	name, err := os.Readlink(system)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "reading the name of the device: %v", err)
	}
	return &staged{
		folder: folder, size: sectors * sectorSize,
		writes: filepath.Join("/sys/fs/ext4", filepath.Base(name), "lifetime_write_kbytes"),
	}, nil
}

// sectorSize is the unit in which the kernel describes the size of every block device, in bytes.
const sectorSize = 512

func number(path string) (uint64, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, status.Errorf(codes.Internal, "reading an attribute of the device: %v", err)
	}
	value, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return 0, status.Errorf(codes.Internal, "reading %s: %v", path, err)
	}
	return value, nil
}

// serialLength is the length of the serial number that virtio transfers: the beginning of a volume
// ID.
const serialLength = 20

// identify returns an error unless the device is the device of a volume. Nova writes the ID of a
// volume into the serial number of its device, and udev names the device after it. The names are
// those by which cinder-csi-plugin finds volumes.
func (f Folders) identify(device uint64, volumeID string) error {
	for _, name := range []string{
		"virtio-" + volumeID[:serialLength], "virtio-" + volumeID,
		"scsi-0QEMU_QEMU_HARDDISK_" + volumeID[:serialLength], "scsi-0QEMU_QEMU_HARDDISK_" + volumeID,
		"wwn-0x" + strings.ReplaceAll(volumeID, "-", ""),
	} {
		var info unix.Stat_t
		err := unix.Stat(filepath.Join(f.Devices, name), &info)
		if err == nil && info.Mode&unix.S_IFMT == unix.S_IFBLK && info.Rdev == device {
			return nil
		}
	}
	return status.Errorf(codes.FailedPrecondition, "what is mounted is not the device of volume %s: "+
		"no name of the volume in %s belongs to that device", volumeID, f.Devices)
}
