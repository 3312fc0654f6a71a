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

// trim discards the unused blocks of a file system, and returns their size in bytes. Errors are
// gRPC statuses.
func trim(ctx context.Context, volume *staged) (discarded uint64, err error) {
	for start := uint64(0); start < volume.size; start += rangeLength {
		if err := ctx.Err(); err != nil {
			return discarded, status.FromContextError(err).Err()
		}
		part := trimRange{start: start, length: rangeLength}
		switch err := request(volume.folder.Fd(), &part); {
		case err == nil:
			discarded += part.length
		case errors.Is(err, unix.EINVAL) && start > 0:
			return discarded, nil // the file system is smaller than the device
		default:
			return discarded, trimError(volume.folder.Name(), err)
		}
	}
	return discarded, nil
}

func request(folder uintptr, part *trimRange) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, folder, fitrim,
			uintptr(unsafe.Pointer(part))) //nolint:gosec // x/sys/unix has no function for it
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
			continue
		}
		return errno
	}
}

func trimError(path string, err error) error {
	code, cause := codes.Internal, ""
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY):
		code, cause = codes.Unimplemented, "the file system or its device cannot discard blocks: "
	case errors.Is(err, unix.EROFS):
		code, cause = codes.FailedPrecondition, "the volume is read-only: "
	case errors.Is(err, unix.EPERM):
		code, cause = codes.Internal, "the container needs the capability SYS_ADMIN: "
	}
	return status.Errorf(code, "discarding the unused blocks of %s: %s%v", path, cause, err)
}
