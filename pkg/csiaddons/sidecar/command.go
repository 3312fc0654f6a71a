package sidecar

import (
	"context"
	"fmt"
	"net"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/manilanode"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// NewCommand returns the command of the sidecar. It ends when ctx is done.
func NewCommand(ctx context.Context) *cobra.Command {
	var flags Flags
	cmd := &cobra.Command{
		Use:          "csi-addons-sidecar",
		Short:        "Serve the CSI-Addons operations of a driver to the controller",
		Version:      version.Get().String(),
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			settings, err := flags.Load()
			if err != nil {
				return err
			}
			ctx, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
			// A second signal ends the process immediately.
			context.AfterFunc(ctx, restore)
			return start(ctx, settings)
		},
	}
	flags.AddTo(cmd.Flags())
	return cmd
}

func start(ctx context.Context, settings *Settings) error {
	klog.FromContext(ctx).Info("Starting", "version", version.Get().GitVersion,
		"commit", version.Get().GitCommit)
	config, err := clientcmd.BuildConfigFromFlags("", settings.Kubeconfig)
	if err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	// A limit of the client would delay the reviews of valid tokens behind those of other clients. The
	// sidecar limits these, and the API server limits requests.
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating the client of Kubernetes: %w", err)
	}
	nodes, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating the client of CSIAddonsNodes: %w", err)
	}
	addons, err := connect(settings)
	if err != nil {
		return err
	}
	defer func() { _ = addons.Close() }()
	program := &Program{
		Settings: settings, Driver: addons, Kube: kube, Dynamic: nodes,
		Metrics: NewMetrics(prometheus.DefaultRegisterer),
	}
	group, ctx := errgroup.WithContext(ctx)
	if settings.HTTPEndpoint != "" {
		group.Go(func() error { return serveMetrics(ctx, settings.HTTPEndpoint) })
	}
	group.Go(func() error { return program.Run(ctx) })
	return group.Wait()
}

// connect returns the client of the driver: on its socket, or in this process.
func connect(settings *Settings) (*driver.Client, error) {
	if len(settings.ManilaNodeAddresses) > 0 {
		return driver.NewInProcess(manilanode.NewServer(&manilanode.Node{
			Driver: settings.ManilaName, Name: settings.Pod.Node, Defaults: settings.ManilaNodeAddresses,
			Addresses: net.InterfaceAddrs,
		}))
	}
	client, err := driver.New(settings.DriverAddress)
	if err != nil {
		return nil, fmt.Errorf("flag --csi-addons-address: %w", err)
	}
	return client, nil
}
