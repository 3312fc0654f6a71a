package cinder

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const volumeID = "5d0f8a52-0b5c-4a6e-9d7b-3f1c2e4a6b80"

func mounted(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	}
}

func TestControllerServiceIsUnimplemented(t *testing.T) {
	t.Parallel()
	_, err := Controller{}.ControllerReclaimSpace(t.Context(),
		&reclaimspace.ControllerReclaimSpaceRequest{VolumeId: volumeID})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("the error is %v", err)
	}
}

func TestRequestIsRefusedBeforeAnyFileIsOpened(t *testing.T) {
	t.Parallel()
	const once = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	block := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: once},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
	}
	const path = "/staging/x/globalmount"
	for name, test := range map[string]struct {
		request *reclaimspace.NodeReclaimSpaceRequest
		want    codes.Code
	}{
		"no volume ID": {&reclaimspace.NodeReclaimSpaceRequest{VolumePath: path}, codes.InvalidArgument},
		"volume ID with a path": {
			&reclaimspace.NodeReclaimSpaceRequest{VolumeId: "../../x", VolumePath: path},
			codes.InvalidArgument,
		},
		"no path": {&reclaimspace.NodeReclaimSpaceRequest{VolumeId: volumeID}, codes.InvalidArgument},
		"block mode": {&reclaimspace.NodeReclaimSpaceRequest{
			VolumeId: volumeID, VolumePath: path, VolumeCapability: block,
		}, codes.Unimplemented},
		"several writers": {&reclaimspace.NodeReclaimSpaceRequest{
			VolumeId: volumeID, VolumePath: path,
			VolumeCapability: mounted(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER),
		}, codes.Unimplemented},
		"one writer and readers": {&reclaimspace.NodeReclaimSpaceRequest{
			VolumeId: volumeID, VolumePath: path,
			VolumeCapability: mounted(csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER),
		}, codes.Unimplemented},
		"several readers": {&reclaimspace.NodeReclaimSpaceRequest{
			VolumeId: volumeID, StagingTargetPath: path,
			VolumeCapability: mounted(csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY),
		}, codes.Unimplemented},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := NewNode(Folders{})
			node.open = func(string, string) (*staged, error) {
				t.Error("a file is opened")
				return nil, os.ErrInvalid
			}
			if _, err := node.NodeReclaimSpace(t.Context(), test.request); status.Code(err) != test.want {
				t.Errorf("the error is %v, want %v", err, test.want)
			}
		})
	}
}

func TestPathMustBeAMountPointBelowTheStagingFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	staging := filepath.Join(dir, "staging")
	for _, folder := range []string{"staging/volume/globalmount", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"staging/link": "volume", "staging/out": "../other", "staging/proc": "/proc",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(staging, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]codes.Code{
		"relative":                              codes.InvalidArgument,
		dir + "/other":                          codes.InvalidArgument,
		staging:                                 codes.InvalidArgument,
		staging + "/":                           codes.InvalidArgument,
		staging + "/../other":                   codes.InvalidArgument,
		staging + "/volume/../volume":           codes.InvalidArgument,
		staging + "/link/globalmount":           codes.InvalidArgument,
		staging + "/out":                        codes.InvalidArgument,
		staging + "/proc":                       codes.InvalidArgument,
		staging + "/file":                       codes.InvalidArgument,
		staging + "/missing":                    codes.NotFound,
		staging + "/volume/globalmount":         codes.FailedPrecondition,
		staging + "/volume/globalmount/missing": codes.NotFound,
	} {
		node := NewNode(Folders{Staging: staging, Devices: dir, System: dir})
		_, err := node.NodeReclaimSpace(t.Context(),
			&reclaimspace.NodeReclaimSpaceRequest{VolumeId: volumeID, VolumePath: path})
		if status.Code(err) != want {
			t.Errorf("for the path %s the error is %v, want %v", path, err, want)
		}
	}
}

func TestFileSystemWithoutTheDeviceOfTheVolumeIsRefused(t *testing.T) {
	t.Parallel()
	devices := t.TempDir()
	name := filepath.Join(devices, "virtio-"+volumeID[:serialLength])
	if err := os.Symlink("/dev/null", name); err != nil { // a device, and not of blocks
		t.Fatal(err)
	}
	// /proc is a mount point of every machine.
	node := NewNode(Folders{Staging: "/", Devices: devices, System: "/sys/dev/block"})
	_, err := node.NodeReclaimSpace(t.Context(),
		&reclaimspace.NodeReclaimSpaceRequest{VolumeId: volumeID, VolumePath: "/proc"})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the error is %v", err)
	}
}

// openedFolder returns a node whose volumes are all in the same folder of a device.
func openedFolder(t *testing.T) *Node {
	t.Helper()
	dir := t.TempDir()
	node := NewNode(Folders{})
	node.open = func(string, string) (*staged, error) {
		folder, err := os.Open(dir)
		return &staged{folder: folder, device: 1, size: 1 << 50}, err
	}
	return node
}

func validRequest() *reclaimspace.NodeReclaimSpaceRequest {
	return &reclaimspace.NodeReclaimSpaceRequest{
		VolumeId: volumeID, VolumePath: "/staging/x",
		VolumeCapability: mounted(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER),
	}
}

// discards returns a function that discards a number of bytes.
func discards(bytes uint64) func(context.Context, *staged, progress) (progress, error) {
	return func(context.Context, *staged, progress) (progress, error) {
		return progress{discarded: bytes}, nil
	}
}

func TestSecondOperationOnADeviceIsAborted(t *testing.T) {
	t.Parallel()
	node := openedFolder(t)
	started, finish := make(chan struct{}), make(chan struct{})
	node.trim = func(context.Context, *staged, progress) (progress, error) {
		close(started)
		<-finish
		return progress{discarded: 4096}, nil
	}
	first := make(chan error, 1)
	go func() {
		_, err := node.NodeReclaimSpace(t.Context(), validRequest())
		first <- err
	}()
	<-started
	_, err := node.NodeReclaimSpace(t.Context(), validRequest())
	if status.Code(err) != codes.Aborted {
		t.Errorf("the error of the second operation is %v", err)
	}
	close(finish)
	if err := <-first; err != nil {
		t.Errorf("the error of the first operation is %v", err)
	}
	node.trim = discards(4096)
	answer, err := node.NodeReclaimSpace(t.Context(), validRequest())
	if err != nil {
		t.Fatal(err)
	}
	freed := answer.GetPreUsage().GetUsageBytes() - answer.GetPostUsage().GetUsageBytes()
	if freed != 4096 {
		t.Errorf("the difference of the usage is %d", freed)
	}
}

func TestFreedSpaceIsAtMostTheFreeSpaceOfTheFileSystem(t *testing.T) {
	t.Parallel()
	node := openedFolder(t)
	node.trim = discards(1 << 62)
	answer, err := node.NodeReclaimSpace(t.Context(), validRequest())
	if err != nil {
		t.Fatal(err)
	}
	var space unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &space); err != nil {
		t.Fatal(err)
	}
	size := int64(space.Blocks) * space.Frsize
	if before := answer.GetPreUsage().GetUsageBytes(); before != size {
		t.Errorf("the usage before is %d, want the size of the file system, %d", before, size)
	}
}

func TestCancelledOperationDiscardsNothingMore(t *testing.T) {
	t.Parallel()
	node := openedFolder(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := node.NodeReclaimSpace(ctx, validRequest()); status.Code(err) != codes.Canceled {
		t.Errorf("the error is %v", err)
	}
	if len(node.busy) > 0 {
		t.Error("the device is still busy")
	}
}

// The device has the ranges 0 to 5, and the kernel discards 100 bytes of each.
func TestOperationContinuesACancelledOne(t *testing.T) {
	t.Parallel()
	node := openedFolder(t)
	open := node.open
	node.open = func(path, volumeID string) (*staged, error) {
		volume, err := open(path, volumeID)
		volume.size = 6 * rangeLength
		return volume, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ranges []uint64
	node.trim = trimmer(func(_ uintptr, part *trimRange) error {
		ranges = append(ranges, part.start/rangeLength)
		if part.start == 2*rangeLength {
			cancel()
		}
		part.length = 100
		return nil
	}).trim
	if _, err := node.NodeReclaimSpace(ctx, validRequest()); status.Code(err) != codes.Canceled {
		t.Fatalf("the error is %v", err)
	}
	other := validRequest()
	other.VolumeId = strings.ReplaceAll(volumeID, "5", "6")
	for _, operation := range []struct {
		request *reclaimspace.NodeReclaimSpaceRequest
		ranges  []uint64
	}{
		{validRequest(), []uint64{3, 4, 5}},
		{validRequest(), []uint64{0, 1, 2, 3, 4, 5}},
		{other, []uint64{0, 1, 2, 3, 4, 5}},
	} {
		ranges = nil
		answer, err := node.NodeReclaimSpace(t.Context(), operation.request)
		if err != nil || !slices.Equal(ranges, operation.ranges) {
			t.Errorf("the ranges are %v, want %v, and the error is %v", ranges, operation.ranges, err)
		}
		freed := answer.GetPreUsage().GetUsageBytes() - answer.GetPostUsage().GetUsageBytes()
		if freed != 600 {
			t.Errorf("the operation reports %d bytes", freed)
		}
	}
}

func TestNumberOfUnfinishedOperationsIsLimited(t *testing.T) {
	t.Parallel()
	node := NewNode(Folders{})
	for i := range 3 * maxVolumes {
		node.suspend(string(rune(i)), progress{start: 1})
	}
	if len(node.unfinished) == 0 || len(node.unfinished) > maxVolumes {
		t.Errorf("%d operations are remembered", len(node.unfinished))
	}
}

func TestErrorsOfTheKernelBecomeStatuses(t *testing.T) {
	t.Parallel()
	// The file system of /proc does not implement FITRIM.
	proc, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	volume := &staged{folder: proc, size: 1 << 40}
	defer volume.close()
	_, err = trimmer(ioctl).trim(t.Context(), volume, progress{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("the error is %v", err)
	}
}
