package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/devcluster/supervisor"
)

const superviseCommand = "supervise"

func newUp(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster in the background, without operators",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.places()
			if err != nil {
				return err
			}
			if _, err := f.clusterOptions(p, cmd.OutOrStdout()); err != nil {
				return err
			}
			if state, err := supervisor.Read(p.dir); err != nil {
				return err
			} else if state.Phase == supervisor.Ready {
				return fmt.Errorf("%w: %s", supervisor.ErrRunning, p.dir)
			}
			args := []string{
				superviseCommand, "--dir=" + string(p.dir), "--binaries=" + p.binaries, "--cloud=" + f.cloud,
				fmt.Sprintf("--tls=%t", f.tls), "--drivers=" + strings.Join(f.drivers, ","),
				"--flavour=" + f.flavour, fmt.Sprintf("--guests=%d", f.guests),
			}
			if err := supervisor.Background(cmd.Context(), p.dir, args, cmd.OutOrStdout()); err != nil {
				return err
			}
			return p.showAccess(cmd.OutOrStdout())
		},
	}
	f.addCluster(cmd)
	return cmd
}

// newSupervise returns the command that `up` starts in the background.
func newSupervise(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:    superviseCommand,
		Short:  "Run a cluster in the foreground until a signal comes",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.places()
			if err != nil {
				return err
			}
			options, err := f.clusterOptions(p, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			return supervisor.Serve(p.dir, func(ready func() error) error {
				p.killLeftovers(cmd.OutOrStdout())
				c, stop, err := start(cmd.Context(), options)
				if err != nil {
					return err
				}
				defer stop()
				if err := ready(); err != nil {
					return err
				}
				return c.Wait(cmd.Context())
			})
		},
	}
	f.addCluster(cmd)
	return cmd
}

func newDown(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster; its files stay for reading",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.places()
			if err != nil {
				return err
			}
			guests, err := p.dir.Guests()
			if err != nil {
				return err
			}
			grace := stopGrace + time.Duration(len(guests))*stopGraceOfGuest
			found, err := supervisor.Stop(cmd.Context(), p.dir, grace)
			if err != nil {
				return err
			}
			p.killLeftovers(cmd.OutOrStdout())
			if !found {
				cmd.Println("no devcluster is running in", p.dir)
			}
			return nil
		},
	}
}

func newStatus(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say whether a cluster runs, and how to reach it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.places()
			if err != nil {
				return err
			}
			state, err := supervisor.Read(p.dir)
			if err != nil {
				return err
			}
			return showStatus(cmd, p, state)
		},
	}
}
