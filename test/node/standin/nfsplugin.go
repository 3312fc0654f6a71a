package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

const (
	// exports contains the folders of the shares. A node binds the folder of the simulated Manila
	// there, below the folder of the socket, because the pod has no other folder of the node.
	exports = "/plugin/exports"
	// nfsPort is the port at which a server says who has access to a share.
	nfsPort = "2049"
)

// nfsPlugin stands in for csi-driver-nfs on a node whose kernel has no NFS client. Instead of a
// share it bind-mounts the folder of the share, which the node contains. Like an NFS client, it
// needs access: the server of the share must permit the address of the node.
type nfsPlugin struct {
	endpoint, nodeID, mountPermissions string
}

func (p *nfsPlugin) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&p.endpoint, "endpoint", "unix://tmp/csi.sock", "Socket of the driver.")
	flags.StringVar(&p.nodeID, "nodeid", "", "Name of the node.")
	flags.StringVar(&p.mountPermissions, "mount-permissions", "0",
		"Permissions of the root folder of a mounted share, in octal; 0 leaves them unchanged.")
}

func (p *nfsPlugin) Run(ctx context.Context) error {
	permissions, err := strconv.ParseUint(p.mountPermissions, 8, 32)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, identity{})
	csi.RegisterNodeServer(server, &node{
		id: p.nodeID, permissions: permissions, exports: exports, port: nfsPort,
		client: http.DefaultClient, mounts: kernel{},
	})
	return serve(ctx, server, socketPath(p.endpoint))
}

type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(
	context.Context, *csi.GetPluginInfoRequest,
) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "nfs.csi.k8s.io", VendorVersion: "stand-in"}, nil
}

func (identity) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

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
