package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/pkg/nodeprobe"
)

// newProbeCommand returns the command of the pods of `kubectl openstack-csi check --nodes`. They
// are privileged, and in the network and PID namespace of their node.
func newProbeCommand(ctx context.Context) *cobra.Command {
	node, wait := nodeprobe.Node{Dial: new(net.Dialer).DialContext}, false
	cmd := &cobra.Command{
		Use:    "probe-node",
		Short:  "Report in the termination message whether the node of this pod can use volumes",
		Args:   cobra.NoArgs,
		Hidden: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			if !wait {
				return probeNode(ctx, node)
			}
			ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
			defer stop()
			<-ctx.Done()
			return nil
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "Only wait for the end of the pod.")
	cmd.Flags().StringVar(&node.PodFolder, "pod-folder", "", "Folder of the pod in the kubelet's.")
	cmd.Flags().StringSliceVar(&node.Servers, "servers", nil, "NFS servers to connect to.")
	return cmd
}

// probeNode makes the root of the node its own, so that links of the node lead to files of it.
func probeNode(ctx context.Context, node nodeprobe.Node) error {
	message, err := os.OpenFile("/dev/termination-log", os.O_WRONLY, 0)
	if err := errors.Join(err, syscall.Chroot("/proc/1/root"), os.Chdir("/")); err != nil {
		return fmt.Errorf("entering the file system of the node: %w", err)
	}
	node.Files = os.DirFS("/")
	if err := json.NewEncoder(message).Encode(node.Probe(ctx)); err != nil {
		return fmt.Errorf("writing the termination message: %w", err)
	}
	return message.Close()
}
