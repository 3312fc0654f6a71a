package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type node struct {
	csi.UnimplementedNodeServer

	id          string
	permissions uint64 // of the root folder of a share; 0 leaves them unchanged
	exports     string // the folder with the folders of the shares
	port        string // of a server
	client      *http.Client
	mounts      mounts
}

type mounts interface {
	// Bind mounts a folder at a target.
	Bind(folder, target string, readOnly bool) error
	// Unmount unmounts a target.
	Unmount(target string) error
	// Mounted returns whether a target is the root of a mount. It is not if it does not exist.
	Mounted(target string) (bool, error)
}

func (n *node) NodeGetInfo(
	context.Context, *csi.NodeGetInfoRequest,
) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.id}, nil
}

// NodeGetCapabilities returns what csi-driver-nfs returns.
func (n *node) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, capability := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{
				Rpc: &csi.NodeServiceCapability_RPC{Type: capability},
			},
		})
	}
	return response, nil
}

// NodePublishVolume binds the folder of a share at the target.
func (n *node) NodePublishVolume(
	ctx context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	server, share := r.GetVolumeContext()["server"], r.GetVolumeContext()["share"]
	target := r.GetTargetPath()
	if r.GetVolumeId() == "" || target == "" || server == "" || path.Dir(share) != "/shares" {
		return nil, status.Errorf(codes.InvalidArgument, "the request needs a volume ID, a target "+
			"path, and a volume context with a server and a share /shares/ID, not %q", share)
	}
	mounted, err := n.mounts.Mounted(target)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if mounted {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	level, err := n.access(ctx, server, share)
	if err != nil {
		return nil, err
	}
	readOnly := r.GetReadonly() || level == "ro" ||
		slices.Contains(r.GetVolumeCapability().GetMount().GetMountFlags(), "ro")
	if err := n.mount(path.Base(share), target, readOnly); err != nil {
		return nil, status.Errorf(codes.Internal, "mounting %s:%s: %v", server, share, err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// access asks a server for the access of this node to a share: rw or ro.
func (n *node) access(ctx context.Context, server, share string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	target := url.URL{Scheme: "http", Host: net.JoinHostPort(server, n.port), Path: share}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return "", status.Error(codes.InvalidArgument, err.Error())
	}
	response, err := n.client.Do(request)
	if err != nil {
		return "", status.Errorf(codes.Unavailable, "asking %s for access: %v", server, err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusForbidden:
		return "", status.Errorf(codes.PermissionDenied,
			"access denied by server while mounting %s:%s", server, share)
	case http.StatusNotFound:
		return "", status.Errorf(codes.NotFound, "%s has no share %s", server, share)
	default:
		return "", status.Errorf(codes.Internal, "%s returned HTTP %d", target.String(),
			response.StatusCode)
	}
	var answer struct {
		Access string `json:"access"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return "", status.Errorf(codes.Internal, "reading the answer of %s: %v", target.String(), err)
	}
	if answer.Access != "rw" && answer.Access != "ro" {
		return "", status.Errorf(codes.Internal, "%s returned the access %q", target.String(),
			answer.Access)
	}
	return answer.Access, nil
}

func (n *node) mount(share, target string, readOnly bool) error {
	folder := filepath.Join(n.exports, share)
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	if n.permissions != 0 && !readOnly {
		if err := unix.Chmod(folder, uint32(n.permissions)); err != nil {
			return &fs.PathError{Op: "chmod", Path: folder, Err: err}
		}
	}
	return n.mounts.Bind(folder, target, readOnly)
}

// NodeUnpublishVolume unmounts the target and deletes its folder.
func (n *node) NodeUnpublishVolume(
	_ context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	target := r.GetTargetPath()
	if r.GetVolumeId() == "" || target == "" {
		return nil, status.Error(codes.InvalidArgument,
			"the request needs a volume ID and a target path")
	}
	mounted, err := n.mounts.Mounted(target)
	if err == nil && mounted {
		err = n.mounts.Unmount(target)
	}
	if err == nil {
		err = os.Remove(target)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.Internal, "unmounting %s: %v", target, err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats returns the size and the use of the file system of a volume.
func (n *node) NodeGetVolumeStats(
	_ context.Context, r *csi.NodeGetVolumeStatsRequest,
) (*csi.NodeGetVolumeStatsResponse, error) {
	if r.GetVolumeId() == "" || r.GetVolumePath() == "" {
		return nil, status.Error(codes.InvalidArgument, "the request needs a volume ID and a path")
	}
	var s unix.Statfs_t
	if err := unix.Statfs(r.GetVolumePath(), &s); err != nil {
		return nil, status.Errorf(codes.NotFound, "reading the file system of %s: %v",
			r.GetVolumePath(), err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		usage(csi.VolumeUsage_BYTES, s.Blocks, s.Bfree, s.Bavail, s.Bsize),
		usage(csi.VolumeUsage_INODES, s.Files, s.Ffree, s.Ffree, 1),
	}}, nil
}

// usage returns an amount in units of a size.
func usage(
	unit csi.VolumeUsage_Unit, total, free, available uint64, size int64,
) *csi.VolumeUsage {
	return &csi.VolumeUsage{
		Unit: unit, Total: int64(total) * size, Used: int64(total-free) * size,
		Available: int64(available) * size,
	}
}
