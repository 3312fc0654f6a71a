package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrar stands in for the node-driver-registrar: it registers the node plugin of a CSI driver
// with kubelet, through a socket in kubelet's folder of plugin registrations.
type registrar struct {
	registration.UnimplementedRegistrationServer

	driver   string // the socket of the driver in this container
	onNode   string // the path of that socket on the node, for kubelet
	folder   string // kubelet's folder of registrations, in this container
	endpoint string // host:port of /healthz; empty for none

	name     string // of the driver
	rejected chan error
}

func (r *registrar) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&r.driver, "csi-address", "/run/csi/socket", "Socket of the driver.")
	flags.StringVar(&r.onNode, "kubelet-registration-path", "",
		"Path of the socket of the driver on the node.")
	flags.StringVar(&r.folder, "plugin-registration-path", "/registration",
		"Folder for the socket of the registration.")
	flags.StringVar(&r.endpoint, "http-endpoint", "", "Address of /healthz, as host:port.")
}

func (r *registrar) Run(ctx context.Context) error {
	if r.onNode == "" {
		return errors.New("set --kubelet-registration-path to the socket of the driver on the node")
	}
	var err error
	if r.name, err = r.driverName(ctx); err != nil {
		return err
	}
	r.rejected = make(chan error, 1)
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, r)
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return serve(ctx, server, r.socket()) })
	if r.endpoint != "" {
		tasks.Go(func() error {
			return serveHealth(ctx, r.endpoint, func(context.Context) error {
				_, err := os.Stat(r.socket()) // kubelet must find it
				return err
			})
		})
	}
	tasks.Go(func() error {
		select {
		case err := <-r.rejected:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	return tasks.Wait()
}

// driverName waits for the driver and returns its name.
func (r *registrar) driverName(ctx context.Context) (string, error) {
	conn, err := dial(r.driver)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{},
		grpc.WaitForReady(true))
	if err != nil {
		return "", fmt.Errorf("reading the name of the driver at %s: %w", r.driver, err)
	}
	return info.GetName(), nil
}

// socket returns the path of the socket that kubelet finds.
func (r *registrar) socket() string {
	return filepath.Join(r.folder, r.name+"-reg.sock")
}

// GetInfo tells kubelet where the driver is.
func (r *registrar) GetInfo(
	context.Context, *registration.InfoRequest,
) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.name, Endpoint: r.onNode,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus ends the process if kubelet rejected the driver. The next process tries
// again.
func (r *registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if status.GetPluginRegistered() {
		klog.InfoS("Registered with kubelet", "driver", r.name)
	} else {
		select {
		case r.rejected <- fmt.Errorf("kubelet rejected the driver %s: %s", r.name, status.GetError()):
		default: // rejected before
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}
