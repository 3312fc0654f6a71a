package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/control"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
)

// firstGuest is the default of the flag --guest.
const firstGuest = "guest-1"

// newRequest returns a command that sends a request to the running cluster.
func newRequest(
	f *flags, use, short string, action control.Action, r *control.Request,
) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.places()
			if err != nil {
				return err
			}
			return control.Send(cmd.Context(), p.dir.Control(), action, *r)
		},
	}
	cmd.Flags().StringVar(&r.Guest, "guest", firstGuest, "the guest cluster")
	return cmd
}

func newAPI(f *flags) *cobra.Command {
	var stopped, started control.Request
	stop := newRequest(f, "stop", "Stop an API server", control.StopAPI, &stopped)
	stop.Long = "Stop an API server. With --how=refuse connections are refused, " +
		"with --how=hang requests hang.\n" +
		"The other components of its control plane are stopped too."
	stop.Flags().StringVar((*string)(&stopped.How), "how", string(controlplane.Refuse),
		controlplane.Ways())
	start := newRequest(f, "start", "Start the API server again, on the same port and with its data",
		control.StartAPI, &started)
	for cmd, r := range map[*cobra.Command]*control.Request{stop: &stopped, start: &started} {
		cmd.Flags().StringVar((*string)(&r.Side), "side", string(cluster.Management),
			fmt.Sprintf("%s (also in flavour %s) or %s", cluster.Management, standalone, cluster.Guest))
	}
	return group("api", "Stop and start an API server of a running cluster", stop, start)
}

func newGuest(f *flags) *cobra.Command {
	return group("guest", "Change a guest cluster", newRequest(f, "rotate-kubeconfig",
		"Issue a new certificate for the kubeconfig in the control plane of a guest cluster",
		control.RotateGuestKubeconfig, &control.Request{}))
}
