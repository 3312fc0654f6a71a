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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

const volumeID = "5d0f8a52-0b5c-4a6e-9d7b-3f1c2e4a6b80"

// requestFor returns a request for a volume that is mounted with an access mode.
func requestFor(mode csi.VolumeCapability_AccessMode_Mode) *reclaimspace.NodeReclaimSpaceRequest {
	return &reclaimspace.NodeReclaimSpaceRequest{
		VolumeId: volumeID, VolumePath: "/staging/x",
		VolumeCapability: &csi.VolumeCapability{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		},
	}
}

func validRequest() *reclaimspace.NodeReclaimSpaceRequest {
	return requestFor(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
}

func TestRequestIsRefusedBeforeAnyFileIsOpened(t *testing.T) {
	t.Parallel()
	block, noID, path, noPath := validRequest(), validRequest(), validRequest(), validRequest()
	block.VolumeCapability.AccessType = &csi.VolumeCapability_Block{
		Block: &csi.VolumeCapability_BlockVolume{},
	}
	noID.VolumeId, path.VolumeId, noPath.VolumePath = "", "../../x", ""
	staging := requestFor(csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY)
	staging.VolumePath, staging.StagingTargetPath = "", staging.GetVolumePath()
	for name, test := range map[string]struct {
		request *reclaimspace.NodeReclaimSpaceRequest
		want    codes.Code
	}{
		"no volume ID":          {noID, codes.InvalidArgument},
		"volume ID with a path": {path, codes.InvalidArgument},
		"no path":               {noPath, codes.InvalidArgument},
		"block mode":            {block, codes.Unimplemented},
		"several readers":       {staging, codes.Unimplemented},
		"several writers": {
			requestFor(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER), codes.Unimplemented,
		},
		"one writer and readers": {
			requestFor(csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER), codes.Unimplemented,
		},
	} {
		node := NewNode(Folders{})
		node.open = func(string, string) (*staged, error) {
			t.Errorf("%s: a file is opened", name)
			return nil, os.ErrInvalid
		}
		_, err := node.NodeReclaimSpace(t.Context(), test.request)
		assert.Check(t, is.Equal(status.Code(err), test.want), "%s: %v", name, err)
	}
}

func TestPathMustBeThatOfTheVolumeBelowTheStagingFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	staging := filepath.Join(dir, "staging")
	assert.NilError(t, os.MkdirAll(filepath.Join(staging, "volume", "globalmount"), 0o700))
	for link, target := range map[string]string{
		"staging/link": "volume", "staging/out": "..", "staging/proc": "/proc",
		"virtio-" + volumeID[:serialLength]: "/dev/null", // a device, and not of blocks
	} {
		assert.NilError(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	for path, want := range map[string]codes.Code{
		"relative":                              codes.InvalidArgument,
		dir + "/other":                          codes.InvalidArgument,
		staging + "/../other":                   codes.InvalidArgument,
		staging + "/out":                        codes.Internal,
		staging + "/proc":                       codes.Internal,
		staging + "/missing":                    codes.NotFound,
		staging + "/volume/globalmount/missing": codes.NotFound,
		staging + "/volume/globalmount":         codes.FailedPrecondition,
		staging + "/link/globalmount":           codes.FailedPrecondition,
		staging:                                 codes.FailedPrecondition,
	} {
		request := validRequest()
		request.VolumePath = path
		node := NewNode(Folders{Staging: staging, Devices: dir})
		_, err := node.NodeReclaimSpace(t.Context(), request)
		assert.Check(t, is.Equal(status.Code(err), want), "%s: %v", path, err)
	}
}

// openedFolder returns a node whose volumes are all in the same folder of a device with six ranges.
func openedFolder(t *testing.T) *Node {
	t.Helper()
	dir := t.TempDir()
	node := NewNode(Folders{})
	node.open = func(string, string) (*staged, error) {
		folder, err := os.Open(dir)
		return &staged{folder: folder, size: 6 * rangeLength}, err
	}
	return node
}

// reclaim returns how much space an operation reports.
func reclaim(ctx context.Context, node *Node, request *reclaimspace.NodeReclaimSpaceRequest,
) (freed int64, err error) {
	answer, err := node.NodeReclaimSpace(ctx, request)
	return answer.GetPreUsage().GetUsageBytes() - answer.GetPostUsage().GetUsageBytes(), err
}

func TestSecondOperationOnAVolumeIsAborted(t *testing.T) {
	t.Parallel()
	node := openedFolder(t)
	node.trim = func(ctx context.Context, _ *staged, _ progress) (progress, error) {
		_, err := reclaim(ctx, node, validRequest())
		assert.Check(t, is.Equal(status.Code(err), codes.Aborted), "the second operation")
		return progress{discarded: 4096}, nil
	}
	for range 2 { // the first one releases the volume
		freed, err := reclaim(t.Context(), node, validRequest())
		assert.Check(t, freed == 4096 && err == nil, "it reports %d bytes and %v", freed, err)
	}
}

// The kernel discards 100 bytes of each of the six ranges.
func TestOperationContinuesACancelledOne(t *testing.T) {
	t.Parallel()
	node := openedFolder(t)
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
	all, other := []uint64{0, 1, 2, 3, 4, 5}, validRequest()
	other.VolumeId = strings.ReplaceAll(volumeID, "5", "6")
	for i, operation := range []struct {
		ctx     context.Context
		request *reclaimspace.NodeReclaimSpaceRequest
		ranges  []uint64
		code    codes.Code
		freed   int64
	}{
		{ctx, validRequest(), all[:3], codes.Canceled, 0},
		{t.Context(), validRequest(), all[3:], codes.OK, 600},
		{t.Context(), validRequest(), all, codes.OK, 600},
		{t.Context(), other, all, codes.OK, 600},
	} {
		ranges = nil
		freed, err := reclaim(operation.ctx, node, operation.request)
		assert.Check(t, status.Code(err) == operation.code && freed == operation.freed &&
			slices.Equal(ranges, operation.ranges),
			"operation %d discards the ranges %v, and reports %d bytes and the error %v", i, ranges, freed,
			err)
	}
}

func TestErrorsOfTheKernelBecomeStatuses(t *testing.T) {
	t.Parallel()
	// The file system of /proc does not implement FITRIM.
	proc, err := os.Open("/proc")
	assert.NilError(t, err)
	volume := &staged{folder: proc, size: 1 << 40}
	defer volume.close()
	_, err = trimmer(ioctl).trim(t.Context(), volume, progress{})
	assert.Check(t, status.Code(err) == codes.Unimplemented, "the error is %v", err)
}

func TestFreedSpaceIsTheSmallestBound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after   usage // before is the usage after an earlier operation
		discarded, want uint64
	}{
		"another file system":  {usage{}, usage{used: 10, free: 90}, 50, 50},
		"more than is free":    {usage{}, usage{used: 10, free: 90}, 1000, 90},
		"first operation":      {usage{}, usage{10, 90, 40, true}, 90, 30},
		"mostly rewritten":     {usage{}, usage{10, 90, 4000, true}, 90, 90},
		"count is incomplete":  {usage{}, usage{10, 90, 5, true}, 90, 0},
		"later operation":      {usage{10, 90, 40, true}, usage{10, 90, 60, true}, 90, 20},
		"grown since":          {usage{10, 90, 40, true}, usage{30, 70, 60, true}, 70, 0},
		"files deleted since":  {usage{50, 50, 60, true}, usage{10, 90, 61, true}, 90, 41},
		"file system made new": {usage{50, 50, 60, true}, usage{10, 90, 20, true}, 90, 10},
	} {
		node := NewNode(Folders{})
		if test.before.counts {
			node.freed(volumeID, test.before, 0)
		}
		assert.Check(t, is.Equal(node.freed(volumeID, test.after, test.discarded), test.want), name)
	}
}
