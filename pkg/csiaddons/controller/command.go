package controller

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// NewCommand returns the command of the controller. It ends when ctx is done.
func NewCommand(ctx context.Context) *cobra.Command {
	var flags Flags
	cmd := &cobra.Command{
		Use:          "csi-addons-controller",
		Short:        "Run the operations of CSI-Addons",
		Version:      version.Get().String(),
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			s, err := flags.Load()
			if err != nil {
				return err
			}
			ctx, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
			// A second signal ends the process immediately.
			context.AfterFunc(ctx, restore)
			return start(ctx, s)
		},
	}
	flags.AddTo(cmd.Flags())
	return cmd
}

// start connects to the API server and runs the controller.
func start(ctx context.Context, s *Settings) error {
	logger := klog.FromContext(ctx)
	log.SetLogger(logger)
	logger.Info("Starting", "version", version.Get().GitVersion, "commit", version.Get().GitCommit)
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return err
	}
	recorded := connection.NewMetrics(ctrlmetrics.Registry)
	return (&Controller{Settings: s, Config: config, Metrics: recorded}).Run(ctx)
}
