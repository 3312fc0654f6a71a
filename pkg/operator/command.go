package operator

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/config/client"

	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/pkg/host"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// NewCommand returns the command of an operator for one driver and its companion drivers. name is
// the name of the operator's Deployment, and of its Lease unless the driver has another Component.
// The operator ends when ctx is done.
func NewCommand(
	ctx context.Context, name string, leader plugin.Driver, companions ...plugin.Driver,
) *cobra.Command {
	root := &cobra.Command{
		Use:     name,
		Short:   "Install and maintain a CSI driver of an OpenStack cloud",
		Version: version.Get().String(),
	}
	drivers := append([]plugin.Driver{leader}, companions...)
	root.AddCommand(newStartCommand(ctx, name, drivers), newProbeCommand(ctx))
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
			o, err := newOperator(name, drivers, &flags, os.LookupEnv)
			if err != nil {
				return err
			}
			ctx, restore := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
			// A second signal ends the process immediately.
			context.AfterFunc(ctx, restore)
			return o.start(ctx)
		},
	}
	flags.AddTo(cmd.Flags())
	return cmd
}

func (o *operator) start(ctx context.Context) error {
	host.LogTo(os.Stderr)
	if err := limitVerbosity(); err != nil {
		return err
	}
	own, err := client.GetKubeConfigOrInClusterConfig(o.settings.Kubeconfig, nil)
	if err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	served := own
	if o.settings.Flavour.Hosted() {
		served, err = client.GetKubeConfigOrInClusterConfig(o.settings.GuestKubeconfig, nil)
		if err != nil {
			return fmt.Errorf("loading the kubeconfig of the guest cluster: %w", err)
		}
		served.Wrap(guest.LimitResponses())
		served.WarningHandler = rest.NoWarnings{} // the guest cluster chooses their number
	}
	// With client-go's default limit of five requests per second a start takes ten seconds. Priority
	// and fairness of the API server protect it.
	own.QPS, served.QPS = -1, -1
	build, log := version.Get(), klog.FromContext(ctx)
	if err := registerBuildInfo(legacyregistry.Register, o.namespaces.Operator, build); err != nil {
		log.Error(err, "Failed to register the build metric")
	}
	log.Info("Starting", "operator", o.name, "flavour", o.settings.Flavour,
		"version", build.GitVersion, "commit", build.GitCommit)
	for _, warning := range o.settings.Warnings {
		log.Info("Using fallback setting", "warning", warning)
	}
	return host.Run(ctx, o.hostOptions(own, served), o.run)
}

func (o *operator) hostOptions(own, served *rest.Config) host.Options {
	return host.Options{
		Name:      cmp.Or(o.drivers[0].Component, o.name),
		Namespace: o.namespaces.Operator, EventNamespace: o.namespaces.Events,
		Config: own, Served: served, Clock: clock.RealClock{},
		Operator: o.settings.Operator, RestartOn: o.settings.RestartOn,
		Monitoring: o.namespaces.Monitoring,
	}
}
