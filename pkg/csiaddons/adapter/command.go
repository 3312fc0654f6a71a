package adapter

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/version"
)

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
