package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
)

func newAPI(f *flags) *cobra.Command {
	var side, how string
	stop := newChange(f, "stop", "Stop an API server",
		func(ctx context.Context, c *cluster.Cluster, guest string) error {
			return c.StopAPI(ctx, flavour.Side(side), guest, controlplane.How(how))
		})
	stop.Long = "Stop an API server. With --how=refuse connections are refused, " +
		"with --how=hang requests hang.\n" +
		"The other components of its control plane are stopped too."
	stop.Flags().StringVar(&how, "how", string(controlplane.Refuse), controlplane.Ways())
	start := newChange(f, "start", "Start the API server again, on the same port and with its data",
		func(ctx context.Context, c *cluster.Cluster, guest string) error {
			return c.StartAPI(ctx, flavour.Side(side), guest)
		})
	parent := group("api", "Stop and start an API server of a running cluster", stop, start)
	parent.PersistentFlags().StringVar(&side, "side", string(flavour.ControlPlane),
		fmt.Sprintf("%s (also in flavour %s) or %s",
			flavour.ControlPlane, flavour.Standalone, flavour.Guest))
	return parent
}

func newGuest(f *flags) *cobra.Command {
	return group("guest", "Change a guest cluster", newChange(f, "rotate-kubeconfig",
		"Issue a new certificate for the kubeconfig in the control plane of a guest cluster",
		func(ctx context.Context, c *cluster.Cluster, guest string) error {
			return c.RotateGuestKubeconfig(ctx, guest)
		}))
}

// newChange returns a command that changes the running cluster, or one of its guest clusters.
func newChange(
	f *flags, use, short string,
	change func(ctx context.Context, c *cluster.Cluster, guest string) error,
) *cobra.Command {
	var guest string
	cmd := f.remote(use, short, cobra.NoArgs,
		func(cmd *cobra.Command, r *running, _ []string) error {
			if r.cluster == nil {
				return errNoCluster()
			}
			return change(cmd.Context(), r.cluster, guest)
		})
	cmd.Flags().StringVar(&guest, "guest", "guest-1", "the guest cluster")
	return cmd
}

// newEarlier returns a command that replaces the drivers of a running cluster.
func newEarlier(f *flags) *cobra.Command {
	cmd := f.remote("earlier RELEASE",
		"Replace the drivers on real nodes by those of an earlier release, such as 4.22",
		cobra.ExactArgs(1),
		func(cmd *cobra.Command, r *running, args []string) error {
			if r.cluster == nil {
				return errNoCluster()
			}
			return r.cluster.InstallEarlier(cmd.Context(), args[0])
		})
	cmd.Long = cmd.Short + ".\nThe operators must have no pods. " +
		"When they have pods again, they upgrade the drivers."
	return cmd
}

func errNoCluster() error { return errors.New("only an OpenStack runs here, no cluster") }
