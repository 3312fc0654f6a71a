// Package adapter is the program beside the unmodified plugin of Cinder or Manila that serves the
// CSI-Addons specification for it on a socket. The sidecar of CSI-Addons calls it.
// cmd/openstack-csi-addons runs it.
package adapter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	spec "github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/cinder"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/identity"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/manila"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

const (
	// maxRequest limits a request, in bytes.
	maxRequest = 1 << 20
	// stopTimeout limits how long calls in flight continue after the end of the context.
	stopTimeout = 10 * time.Second
	// socketMode lets all containers of the pod connect. Nobody else reaches the folder.
	socketMode = 0o660
)

// Run serves until ctx is done.
func Run(ctx context.Context, settings *Settings) error {
	listener, err := listen(ctx, settings.Address)
	if err != nil {
		return err
	}
	server := newServer(settings)
	klog.FromContext(ctx).Info("Serving the sidecar", "driver", settings.Driver,
		"service", settings.Service, "address", settings.Address)
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(stopTimeout, server.Stop) // cancels the calls
		defer timer.Stop()
		server.GracefulStop()
	})
	defer stop()
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("serving the sidecar: %w", err)
	}
	return nil
}

func newServer(settings *Settings) *grpc.Server {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest), grpc.WaitForHandlers(true))
	self := identity.Service{
		Driver: settings.Name, Kind: spec.Capability_Service_CONTROLLER_SERVICE,
	}
	switch {
	case settings.Service == Node:
		self.Kind = spec.Capability_Service_NODE_SERVICE
		self.Operation = identity.Reclaims(spec.Capability_ReclaimSpace_ONLINE)
		reclaimspace.RegisterReclaimSpaceNodeServer(server,
			cinder.NewNode(cinder.Folders{Staging: settings.StagingPath, Devices: "/dev/disk/by-id"}))
	case settings.Driver == Cinder:
		// The controller of the CSI-Addons for Ceph calls only drivers that reclaim space offline too,
		// and accepts UNIMPLEMENTED for this step of the operation.
		self.Operation = identity.Reclaims(spec.Capability_ReclaimSpace_OFFLINE)
		reclaimspace.RegisterReclaimSpaceControllerServer(server, cinder.Controller{})
	default:
		self.Operation = identity.Fences(spec.Capability_NetworkFence_NETWORK_FENCE)
		client := openstack.NewClient(loginFolder(settings.LoginFolder).access,
			openstack.NewBackoff(clock.RealClock{}))
		fences := settings.Fence
		fence.RegisterFenceControllerServer(server, manila.NewController(manila.Config{
			Cluster: fences.Cluster, MaxRules: fences.MaxRules,
			Connect: func(ctx context.Context) (manila.Shares, error) {
				return shares.New(ctx, client)
			},
			Volumes:       volumes{driver: settings.Name, kubeconfig: fences.Kubeconfig}.list,
			PluginVersion: plugin(fences.PluginAddress).version,
		}))
	}
	spec.RegisterIdentityServer(server, self)
	return server
}

// listen replaces the socket that an earlier process left.
func listen(ctx context.Context, address string) (net.Listener, error) {
	if err := os.Remove(address); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of an earlier process: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", address)
	if err != nil {
		return nil, fmt.Errorf("listening (flag --csi-addons-address): %w", err)
	}
	if err := os.Chmod(address, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("setting the mode of the socket: %w", err), listener.Close())
	}
	return listener, nil
}

// NewCommand returns the command of the adapter. It ends when ctx is done.
func NewCommand(ctx context.Context) *cobra.Command {
	var settings Settings
	cmd := &cobra.Command{
		Use:          "openstack-csi-addons",
		Short:        "Serve CSI-Addons for the CSI driver of Cinder or Manila",
		Version:      version.Get().String(),
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			if err := settings.Check(); err != nil {
				return err
			}
			ctx, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
			// A second signal ends the process immediately.
			context.AfterFunc(ctx, restore)
			klog.FromContext(ctx).Info("Starting", "version", version.Get().GitVersion,
				"commit", version.Get().GitCommit)
			return Run(ctx, &settings)
		},
	}
	settings.AddTo(cmd.Flags())
	return cmd
}
