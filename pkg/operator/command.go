package operator

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/config/client"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/host"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// NewCommand returns the command of an operator for one driver and its companions. name is the operator's own: of its
// Deployment, and of the Lease it holds while it works. ctx bounds everything that runs.
func NewCommand(ctx context.Context, name string, leader plugin.Driver, companions ...plugin.Driver) *cobra.Command {
	root := &cobra.Command{
		Use:     name,
		Short:   fmt.Sprintf("Installs the CSI driver %s of an OpenStack cloud and keeps it alive", leader.Name),
		Version: version.Get().String(),
	}
	root.AddCommand(newStartCommand(ctx, name, append([]plugin.Driver{leader}, companions...)))
	return root
}

func newStartCommand(ctx context.Context, name string, drivers []plugin.Driver) *cobra.Command {
	var flags settings.Flags
	cmd := &cobra.Command{
		Use:          "start",
		Short:        "Start the operator",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			o, err := newOperator(drivers, &flags)
			if err != nil {
				return err
			}
			ctx, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
			// A second signal ends the process at once.
			context.AfterFunc(ctx, restore)
			return o.start(ctx, name)
		},
	}
	flags.AddTo(cmd.Flags())
	return cmd
}

// operator is what a start command runs.
type operator struct {
	drivers  []plugin.Driver
	bundles  []*bundle.Bundle
	settings *settings.Settings
}

// newOperator loads the drivers' bundles and, knowing what they need, the settings.
func newOperator(drivers []plugin.Driver, flags *settings.Flags) (*operator, error) {
	bundles, err := loadBundles(drivers, flags.Flavour())
	if err != nil {
		return nil, err
	}
	loaded, err := flags.Load(os.LookupEnv, imageVariables(bundles))
	if err != nil {
		return nil, err
	}
	return &operator{drivers: drivers, bundles: bundles, settings: loaded}, nil
}

// start runs the operator in its process.
func (o *operator) start(ctx context.Context, name string) error {
	if err := limitVerbosity(); err != nil {
		return err
	}
	config, err := client.GetKubeConfigOrInClusterConfig(o.settings.Kubeconfig, nil)
	if err != nil {
		return fmt.Errorf("reading the access to the API server: %w", err)
	}
	build := version.Get()
	klog.FromContext(ctx).Info("Starting", "operator", name, "version", build.GitVersion, "commit", build.GitCommit)
	return host.Run(ctx, host.Options{
		Name:      name,
		Namespace: o.settings.Namespace,
		Config:    config,
		Operator:  o.settings.Operator,
		RestartOn: o.settings.RestartOn,
		Clock:     clock.RealClock{},
	}, o.run)
}
