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
	// device is the number of the device.
	device uint64
	// size is the size of the device in bytes.
	size uint64
	// writes is the file in which ext4 counts what was written to the file system, in KiB.
	writes string
}

func (s *staged) close() { _ = s.folder.Close() } // it was only read

// usage returns the usage of the file system.
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

// open opens the file system at a path, which must be a mount point of the device of the volume.
// Errors are gRPC statuses.
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

// openFolder opens a folder below the staging folder. It follows no symbolic links below it.
func (f Folders) openFolder(path string) (*os.File, error) {
	relative, err := filepath.Rel(f.Staging, path)
	if err != nil || filepath.Clean(path) != path || relative == "." || !filepath.IsLocal(relative) {
		return nil, status.Errorf(codes.InvalidArgument,
			"the path of the volume is not a path below %s (flag --staging-path)", f.Staging)
	}
	root, err := os.Open(f.Staging)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "opening the staging folder: %v", err)
	}
	defer func() { _ = root.Close() }()
	opened, err := unix.Openat2(int(root.Fd()), relative, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NONBLOCK,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, status.Errorf(codes.NotFound, "no volume is staged at %s on this node", path)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOTDIR):
		return nil, status.Errorf(codes.InvalidArgument, "%s is no folder, or its path contains a "+
			"symbolic link", path)
	case err != nil:
		return nil, status.Errorf(codes.Internal, "opening %s: %v", path, err)
	}
	return os.NewFile(uintptr(opened), path), nil
}

// describe checks that a folder is a mount point of the device of a volume, and that the device can
// discard blocks.
func (f Folders) describe(folder *os.File, volumeID string) (*staged, error) {
	var info unix.Statx_t
	err := unix.Statx(int(folder.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &info)
	switch {
	case err != nil:
		return nil, status.Errorf(codes.Internal, "reading %s: %v", folder.Name(), err)
	case info.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return nil, status.Error(codes.Internal,
			"the kernel does not report mount points: Linux 5.8 or later is required")
	case info.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0:
		return nil, status.Errorf(codes.FailedPrecondition, "%s is not a mount point", folder.Name())
	}
	device := unix.Mkdev(info.Dev_major, info.Dev_minor)
	if err := f.identify(device, volumeID); err != nil {
		return nil, err
	}
	system := filepath.Join(f.System, fmt.Sprintf("%d:%d", info.Dev_major, info.Dev_minor))
	discards, err := number(filepath.Join(system, "queue", "discard_max_bytes"))
	if err != nil {
		return nil, err
	}
	if discards == 0 {
		return nil, status.Errorf(codes.Unimplemented, "the device of volume %s cannot discard blocks. "+
			"The cloud must attach volumes with discard=unmap", volumeID)
	}
	sectors, err := number(filepath.Join(system, "size"))
	if err != nil {
		return nil, err
	}
	name, err := os.Readlink(system)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "reading the name of the device: %v", err)
	}
	return &staged{
		folder: folder, device: device, size: sectors * sectorSize,
		writes: filepath.Join(f.Ext4, filepath.Base(name), "lifetime_write_kbytes"),
	}, nil
}

// sectorSize is the unit in which the kernel describes the size of every block device, in bytes.
const sectorSize = 512

// number reads an attribute of a block device. File systems without a device have none.
func number(path string) (uint64, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, status.Errorf(codes.FailedPrecondition, "the kernel does not describe the device: "+
			"%s does not exist", path)
	}
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
