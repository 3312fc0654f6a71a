//go:build integration

// Package reclaim tests that the space of volumes is reclaimed on loop devices, as root.
package reclaim

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/cinder"
	"github.com/openstack-csi/csi-operator/test/node/loop"
)

const (
	mebibyte   = 1 << 20
	volumeSize = 512 * mebibyte // the smallest file system of xfs has 300 MiB
	fileSize   = 96 * mebibyte
	volumeID   = "5d0f8a52-0b5c-4a6e-9d7b-3f1c2e4a6b80"
	otherID    = "9c1de6b4-5f9a-4c53-8f0e-d2b7a1c4e6f3"
)

// insideVariable marks the process that has its own mount namespace.
const insideVariable = "RECLAIM_TEST_INSIDE"

// TestMain runs the tests in a process with a mount namespace of its own. The kernel removes its
// mounts and loop devices when it ends, however it ends.
func TestMain(m *testing.M) {
	if os.Getenv(insideVariable) != "" {
		os.Exit(m.Run())
	}
	os.Exit(runInside())
}

func runInside() int {
	_, noExt4 := exec.LookPath("mkfs.ext4")
	_, noXFS := exec.LookPath("mkfs.xfs")
	if err := errors.Join(noExt4, noXFS); err != nil || os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests need root, and the Debian packages e2fsprogs and xfsprogs")
		return 1
	}
	command := exec.Command(os.Args[0], os.Args[1:]...)
	command.Env = append(os.Environ(), insideVariable+"=yes")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	if err := command.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// fixture is a node with staged volumes.
type fixture struct {
	dir  string
	node *cinder.Node
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir()}
	for _, folder := range []string{f.staging(), f.devices()} {
		assert.NilError(t, os.Mkdir(folder, 0o700))
	}
	f.node = cinder.NewNode(cinder.Folders{Staging: f.staging(), Devices: f.devices()})
	return f
}

func (f *fixture) staging() string { return filepath.Join(f.dir, "staging") }
func (f *fixture) devices() string { return filepath.Join(f.dir, "by-id") }

// stage makes a file system on a loop device of a file, and mounts it as kubelet would. It returns
// the mount point.
func (f *fixture) stage(t *testing.T, id, fileSystem, file string, size int64) string {
	t.Helper()
	mustRun(t, "truncate", fmt.Sprintf("--size=%d", size), file)
	device, err := loop.Attach(file)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = device.Close() })
	mustRun(t, "mkfs."+fileSystem, "-q", device.Name())
	assert.NilError(t, os.Symlink(device.Name(), filepath.Join(f.devices(), "virtio-"+id[:20])))
	path := filepath.Join(f.staging(), id, "globalmount")
	assert.NilError(t, os.MkdirAll(path, 0o700))
	assert.NilError(t, unix.Mount(device.Name(), path, fileSystem, 0, ""))
	t.Cleanup(func() {
		assert.Check(t, unix.Unmount(path, 0))
	})
	return path
}

// reclaim reclaims the space of the volume volumeID.
func (f *fixture) reclaim(t *testing.T, path string) (before, after int64, err error) {
	t.Helper()
	answer, err := f.node.NodeReclaimSpace(t.Context(),
		&reclaimspace.NodeReclaimSpaceRequest{VolumeId: volumeID, VolumePath: path})
	return answer.GetPreUsage().GetUsageBytes(), answer.GetPostUsage().GetUsageBytes(), err
}

func mustRun(t *testing.T, program string, args ...string) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	assert.Assert(t, err == nil, "%s: %v\n%s", program, err, output)
}

// allocated returns how many bytes of the disk a file takes.
func allocated(t *testing.T, file string) int64 {
	t.Helper()
	var info unix.Stat_t
	assert.NilError(t, unix.Stat(file, &info))
	return info.Blocks * 512
}

// writeAndDelete writes a file, calls check while it exists, and deletes it.
func writeAndDelete(t *testing.T, folder string, check func()) {
	t.Helper()
	file, err := os.Create(filepath.Join(folder, "data"))
	assert.NilError(t, err)
	_, err = io.CopyN(file, rand.Reader, fileSize)
	assert.NilError(t, errors.Join(err, file.Sync(), file.Close()))
	check()
	assert.NilError(t, os.Remove(file.Name()))
	waitUntilFreed(t, folder)
}

// waitUntilFreed waits until a file system has freed the blocks of deleted files: XFS does so in
// the background, and ext4 when it commits its journal.
func waitUntilFreed(t *testing.T, folder string) {
	t.Helper()
	root, err := os.Open(folder)
	assert.NilError(t, err)
	defer root.Close()
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			var space unix.Statfs_t
			fd := int(root.Fd())
			err := errors.Join(unix.Syncfs(fd), unix.Fstatfs(fd, &space))
			used := int64(space.Blocks-space.Bfree) * space.Frsize
			return used < fileSize/2, err
		})
	assert.NilError(t, err, "waiting until the blocks of a deleted file are free")
}

func TestReclaimedSpaceReturnsToTheCloud(t *testing.T) {
	t.Parallel()
	for _, fileSystem := range []string{"ext4", "xfs"} {
		t.Run(fileSystem, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			file := filepath.Join(f.dir, "volume")
			path := f.stage(t, volumeID, fileSystem, file, volumeSize)
			full := int64(0)
			writeAndDelete(t, path, func() { full = allocated(t, file) })
			assert.Assert(t, full >= fileSize, "the volume takes %d bytes, less than the file in it", full)
			before, after, err := f.reclaim(t, path)
			assert.NilError(t, err)
			const tolerance = 8 * mebibyte // journals and logs
			freed := int64(0)
			err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
				func(context.Context) (bool, error) { // XFS discards in the background
					freed = full - allocated(t, file)
					return freed >= fileSize-tolerance, nil
				})
			assert.Check(t, err == nil, "the volume shrank by %d bytes, want %d", freed, fileSize)
			assert.Check(t, before-after >= freed-tolerance && before <= volumeSize && after <= tolerance*4,
				"the usage is %d before and %d after; the volume shrank by %d", before, after, freed)
		})
	}
}

func TestEstimateOfExt4IsWhatTheCloudFrees(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file := filepath.Join(f.dir, "volume")
	path := f.stage(t, volumeID, "ext4", file, volumeSize)
	for operation := 1; operation <= 2; operation++ {
		full := int64(0)
		writeAndDelete(t, path, func() { full = allocated(t, file) })
		before, after, err := f.reclaim(t, path)
		assert.NilError(t, err)
		freed, estimate := full-allocated(t, file), before-after
		const tolerance = 16 * mebibyte // metadata and the journal are written, and not freed
		assert.Check(t, estimate >= freed-mebibyte && estimate <= freed+tolerance,
			"operation %d: the volume shrank by %d bytes, the estimate is %d", operation, freed, estimate)
	}
}

func TestOnlyTheVolumeIsTrimmed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	path := f.stage(t, volumeID, "ext4", filepath.Join(f.dir, "volume"), 64*mebibyte)
	other := f.stage(t, otherID, "ext4", filepath.Join(f.dir, "other"), 64*mebibyte)
	link := filepath.Join(f.staging(), "link")
	assert.NilError(t, os.Symlink(path, link))
	folder := filepath.Join(path, "folder")
	assert.NilError(t, os.Mkdir(folder, 0o700))
	for name, test := range map[string]struct {
		path string
		want codes.Code
	}{
		"the volume":                {path, codes.OK},
		"another volume":            {other, codes.FailedPrecondition},
		"a folder of the volume":    {folder, codes.OK},
		"a link to the volume":      {link, codes.Internal},
		"the folder of the volumes": {f.staging(), codes.FailedPrecondition},
	} {
		if _, _, err := f.reclaim(t, test.path); status.Code(err) != test.want {
			t.Errorf("for %s the error is %v, want %v", name, err, test.want)
		}
	}
}

func TestDeviceThatCannotDiscardIsUnimplemented(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// A file of ramfs cannot have holes, so its loop device does not discard.
	memory := filepath.Join(f.dir, "memory")
	assert.NilError(t, os.Mkdir(memory, 0o700))
	assert.NilError(t, unix.Mount("none", memory, "ramfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(memory, unix.MNT_DETACH) }) // the loop device still uses it
	path := f.stage(t, volumeID, "ext4", filepath.Join(memory, "volume"), 16*mebibyte)
	if _, _, err := f.reclaim(t, path); status.Code(err) != codes.Unimplemented {
		t.Errorf("the error is %v", err)
	}
}
