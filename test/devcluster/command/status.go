package command

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/devcluster/supervisor"
)

// showStatus fails unless the cluster is ready, so that scripts can use the exit status.
func showStatus(cmd *cobra.Command, p places, state supervisor.State) error {
	cmd.Printf("devcluster %s in %s\n", state.Phase, p.dir)
	if state.Phase == supervisor.Failed {
		return errors.New(state.Error)
	}
	if state.Phase != supervisor.Ready {
		return errors.New("the cluster is not ready")
	}
	cmd.Printf("  process    %d, since %s\n", state.PID, time.Since(state.Started).Round(time.Second))
	cmd.Printf("  audit log  %s\n", p.dir.AuditLog())
	cmd.Printf("  logs       %s\n", p.dir.Logs())
	return p.showAccess(cmd.OutOrStdout())
}

// showAccess prints the kubeconfig of each cluster.
func (p places) showAccess(out io.Writer) error {
	guests, err := p.dir.Guests()
	if err != nil {
		return err
	}
	var management string
	if len(guests) > 0 {
		management = "  # the management cluster"
	}
	fmt.Fprintf(out, "export KUBECONFIG=%s%s\n", p.dir.AdminKubeconfig(), management)
	for _, guest := range guests {
		fmt.Fprintf(out, "export KUBECONFIG=%s  # guest cluster %s\n",
			p.dir.Guest(guest).AdminKubeconfig(), guest)
	}
	return nil
}
