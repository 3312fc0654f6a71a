package cinder

import (
	"context"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// fitrim is the request FITRIM of ioctl(2), _IOWR('X', 121, struct fstrim_range) in linux/fs.h.
	fitrim = 0xc0185879
	// rangeLength is the part of a file system that one request trims, in bytes. A call can be
	// cancelled between two requests. It is a multiple of the size of the block groups of ext4: the
	// kernel skips a group that it trimmed before only if it trimmed the whole group.
	rangeLength = 1 << 30
)

// trimRange is struct fstrim_range of linux/fs.h. The kernel replaces the length with the number of
// discarded bytes.
type trimRange struct{ start, length, minimum uint64 }

// progress is how far the unused blocks of a file system are discarded: start is the beginning of
// the next range, and discarded the size of the blocks before it, in bytes.
type progress struct{ start, discarded uint64 }

// trimmer sends FITRIM for a range of the file system that contains a folder.
type trimmer func(folder uintptr, part *trimRange) error

// trim discards the unused blocks of a file system from a range on. Errors are gRPC statuses; then
// the result is how far it came.
func (send trimmer) trim(ctx context.Context, volume *staged, p progress) (progress, error) {
	for ; p.start < volume.size; p.start += rangeLength {
		if err := ctx.Err(); err != nil {
			return p, status.FromContextError(err).Err()
		}
		part := trimRange{start: p.start, length: rangeLength}
		switch err := send(volume.folder.Fd(), &part); {
		case err == nil:
			p.discarded += part.length
		case errors.Is(err, unix.EINVAL) && p.start > 0:
			return p, nil // the file system is smaller than the device
		default:
			return p, trimError(volume.folder.Name(), err)
		}
	}
	return p, nil
}

func ioctl(folder uintptr, part *trimRange) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, folder, fitrim,
		uintptr(unsafe.Pointer(part))) //nolint:gosec // x/sys/unix has no function for it
	if errno != 0 {
		return errno
	}
	return nil
}

func trimError(path string, err error) error {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY):
		return status.Errorf(codes.Unimplemented, "the device or the file system at %s cannot discard "+
			"blocks. The cloud must attach volumes with discard=unmap", path)
	case errors.Is(err, unix.EROFS):
		return status.Errorf(codes.FailedPrecondition, "the volume is read-only")
	}
	return status.Errorf(codes.Internal, "discarding the unused blocks of %s: %v", path, err)
}
