// Package cinder serves the CSI-Addons operations for volumes of Cinder. Package adapter registers
// its services.
//
// The only operation is to reclaim space: the node service tells the device of a volume which
// blocks its file system does not use. Cinder has no request for it, so the controller service
// answers UNIMPLEMENTED.
package cinder

import (
	"context"
	"regexp"
	"sync"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"
)

// Controller serves reclaimspace.ReclaimSpaceController.
type Controller struct {
	reclaimspace.UnimplementedReclaimSpaceControllerServer
}

// ControllerReclaimSpace always returns UNIMPLEMENTED.
func (Controller) ControllerReclaimSpace(
	context.Context, *reclaimspace.ControllerReclaimSpaceRequest,
) (*reclaimspace.ControllerReclaimSpaceResponse, error) {
	return nil, status.Error(codes.Unimplemented,
		"Cinder cannot reclaim the space of a volume: only the node that uses the volume can")
}

// Node serves reclaimspace.ReclaimSpaceNode. NewNode creates it.
type Node struct {
	reclaimspace.UnimplementedReclaimSpaceNodeServer

	// open opens a staged volume, and trim trims it.
	open func(path, volumeID string) (*staged, error)
	trim func(context.Context, *staged, progress) (progress, error)

	// busy contains the IDs of the volumes with an operation in progress.
	busy sync.Map
	// usages contains the usage after the last operation on a volume, and unfinished how far a failed
	// operation came. Only ext4 skips what was discarded before, so operations on a large volume with
	// another file system could all exceed their time if they started from the beginning.
	usages, unfinished *lru.Cache
}

// maxVolumes limits the volumes that a node remembers: more than a node can attach.
const maxVolumes = 1024

// Folders are the folders of a node that the service reads.
type Folders struct {
	// Staging is the folder below which kubelet stages volumes. It must be an absolute path.
	Staging string
	// Devices is the folder in which udev names devices by their serial number: /dev/disk/by-id.
	Devices string
}

// NewNode returns the node service.
func NewNode(folders Folders) *Node {
	return &Node{
		open: folders.open, trim: trimmer(ioctl).trim, usages: lru.New(maxVolumes),
		unfinished: lru.New(maxVolumes),
	}
}

// validVolumeID matches the IDs of Cinder's volumes.
var validVolumeID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// NodeReclaimSpace discards the blocks that the file system of a staged volume does not use. The
// usage in the answer is an estimate; see freed. If the previous operation on the volume failed,
// this one continues it.
func (n *Node) NodeReclaimSpace(ctx context.Context, request *reclaimspace.NodeReclaimSpaceRequest,
) (*reclaimspace.NodeReclaimSpaceResponse, error) {
	path, err := check(request)
	if err != nil {
		return nil, err
	}
	volumeID := request.GetVolumeId()
	if _, busy := n.busy.LoadOrStore(volumeID, true); busy {
		return nil, status.Errorf(codes.Aborted,
			"an operation that reclaims the space of volume %s is in progress", volumeID)
	}
	defer n.busy.Delete(volumeID)
	volume, err := n.open(path, volumeID)
	if err != nil {
		return nil, err
	}
	defer volume.close()
	previous, _ := n.unfinished.Get(volumeID)
	n.unfinished.Remove(volumeID)
	done, _ := previous.(progress)
	if done, err = n.trim(ctx, volume, done); err != nil {
		n.unfinished.Add(volumeID, done)
		return nil, err
	}
	after, err := volume.usage()
	if err != nil {
		return nil, err
	}
	freed := n.freed(volumeID, after, done.discarded)
	klog.FromContext(ctx).Info("Discarded the unused blocks of a volume",
		"volume", volumeID, "discardedBytes", done.discarded, "freedBytes", freed,
		"usedBytes", after.used)
	return &reclaimspace.NodeReclaimSpaceResponse{
		PreUsage:  &reclaimspace.StorageConsumption{UsageBytes: int64(after.used + freed)},
		PostUsage: &reclaimspace.StorageConsumption{UsageBytes: int64(after.used)},
	}, nil
}

// check returns the path in a request, or why the operation is not possible for the volume.
func check(request *reclaimspace.NodeReclaimSpaceRequest) (path string, err error) {
	if !validVolumeID.MatchString(request.GetVolumeId()) {
		return "", status.Error(codes.InvalidArgument, "volume_id is not the ID of a volume of Cinder")
	}
	// The sidecar of the CSI-Addons for Ceph sends only the second path.
	path = request.GetVolumePath()
	if path == "" {
		path = request.GetStagingTargetPath()
	}
	if path == "" {
		return "", status.Error(codes.InvalidArgument, "volume_path is missing")
	}
	capability := request.GetVolumeCapability()
	switch {
	case capability.GetBlock() != nil:
		return "", status.Error(codes.Unimplemented,
			"the volume has no file system (volumeMode: Block), so nothing tells which blocks are unused")
	case isShared(capability.GetAccessMode().GetMode()):
		return "", status.Error(codes.Unimplemented,
			"several nodes may use the volume at the same time, so no node knows which blocks are unused")
	}
	return path, nil
}

func isShared(mode csi.VolumeCapability_AccessMode_Mode) bool {
	switch mode {
	case csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:
		return true
	default:
		return false
	}
}

// usage is the usage of a file system, in bytes.
type usage struct {
	used, free uint64
	// written is what was written to the file system since it was made, on all nodes. It is valid if
	// counts is true.
	written uint64
	counts  bool
}

// freed returns an estimate of how much space the cloud frees in an operation, in bytes, because a
// node cannot read how much space a volume takes in the cloud. It remembers the usage after the
// operation. The estimate is the smallest of these numbers:
//   - what the file system reports as discarded. ext4 leaves out groups of blocks that were not
//     used since they were discarded. XFS of recent kernels reports all its free space.
//   - the free space.
//   - on ext4, what the volume can have taken at most, minus what it uses. A volume takes at most
//     what was written to it in its lifetime. After an operation it takes what it uses, and later
//     at most what was written since.
func (n *Node) freed(volumeID string, after usage, discarded uint64) uint64 {
	estimate := min(discarded, after.free)
	if !after.counts {
		return estimate
	}
	taken := after.written
	previous, _ := n.usages.Get(volumeID)
	if last, found := previous.(usage); found && last.written <= after.written {
		taken = last.used + after.written - last.written
	}
	n.usages.Add(volumeID, after)
	return min(estimate, max(taken, after.used)-after.used)
}
