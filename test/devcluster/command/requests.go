package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/control"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
)

// firstGuest is the hosted cluster that is meant unless another is named.
const firstGuest = "guest-1"

func (f *flags) request(cmd *cobra.Command, o control.Request) error {
	p, err := f.places()
	if err != nil {
		return err
	}
	return control.Send(cmd.Context(), p.dir.Control(), o)
}

func newAPI(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "api", Short: "Take an API server of a running cluster away and bring it back"}
	cmd.AddCommand(newAPIStop(f), newAPIStart(f))
	return cmd
}

func newAPIStop(f *flags) *cobra.Command {
	var how string
	request := control.Request{Action: control.StopAPI}
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Take an API server away",
		Long: "Take an API server away: with --how=refuse nobody listens, with --how=hang nobody answers.\n" +
			"The rest of its control plane is away meanwhile.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request.How = controlplane.How(how)
			return f.request(cmd, request)
		},
	}
	addSide(cmd, &request)
	cmd.Flags().StringVar(&how, "how", string(controlplane.Refuse), controlplane.Ways())
	return cmd
}

func newAPIStart(f *flags) *cobra.Command {
	request := control.Request{Action: control.StartAPI}
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Bring the API server back, on the same port and with its data",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return f.request(cmd, request) },
	}
	addSide(cmd, &request)
	return cmd
}

func addSide(cmd *cobra.Command, o *control.Request) {
	cmd.Flags().StringVar((*string)(&o.Side), "side", string(cluster.Management),
		fmt.Sprintf("%s (also that of flavour %s) or %s", cluster.Management, standalone, cluster.Guest))
	cmd.Flags().StringVar(&o.Guest, "guest", firstGuest, "the hosted cluster")
}

func newGuest(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "guest", Short: "Change a hosted cluster"}
	request := control.Request{Action: control.RotateGuestKubeconfig}
	rotate := &cobra.Command{
		Use:   "rotate-kubeconfig",
		Short: "Give the hosted control plane a new certificate for its cluster",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return f.request(cmd, request) },
	}
	rotate.Flags().StringVar(&request.Guest, "guest", firstGuest, "the hosted cluster")
	cmd.AddCommand(rotate)
	return cmd
}
