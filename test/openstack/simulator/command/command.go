// Package command is the command line of the OpenStack simulator: "serve" runs one, everything else drives a running
// one through its control API. Its caller is the main of openstack-simulator.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	flagControl   = "control"
	flagStateFile = "state-file"

	longHelp = `openstack-simulator runs a small OpenStack cloud (Keystone, Manila, and the availability zones of Nova and
Cinder) on the loopback interface, and drives a running one: share types, credentials, tokens, faults.

Every command but serve needs to know the running simulator, by --control or by --state-file.`

	longExample = `  # a cloud with two share types
  openstack-simulator serve --share-types default,cephfs --state-file cloud.json

  # in another terminal
  openstack-simulator --state-file cloud.json clouds-yaml > clouds.yaml
  openstack-simulator --state-file cloud.json types add gold
  openstack-simulator --state-file cloud.json fault set hang --service share
  openstack-simulator --state-file cloud.json fault clear
  openstack-simulator --state-file cloud.json counters`
)

// Main runs the command line until it is done or the process is told to stop, and returns the exit status.
func Main(args []string, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := New()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	if err := root.ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(errOut, "openstack-simulator:", err)
		return 1
	}
	return 0
}

// New returns the command with all its subcommands.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:               "openstack-simulator",
		Short:             "Run and drive a simulated OpenStack cloud",
		Long:              longHelp,
		Example:           longExample,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().String(flagControl, "", "`URL` of the running simulator's control API, as serve prints it")
	root.PersistentFlags().String(flagStateFile, "", "`file` that serve writes its addresses to")
	root.AddCommand(
		serveCommand(), infoCommand(), typesCommand(), zonesCommand(), faultCommand(), tokensCommand(),
		credentialsCommand(), catalogCommand(), logCommand(), countersCommand(), cloudsCommand(), caCommand(),
	)
	return root
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	parent := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return cmd.Help()
	}}
	parent.AddCommand(commands...)
	return parent
}

// action is what a command does with the running simulator.
type action func(cmd *cobra.Command, client *simulator.Client, args []string) error

// drive is a command that talks to the running simulator.
func drive(use, short string, args cobra.PositionalArgs, do action) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		client, err := connect(cmd)
		if err != nil {
			return err
		}
		return do(cmd, client, args)
	}}
}

// connect finds the running simulator.
func connect(cmd *cobra.Command) (*simulator.Client, error) {
	control, err := cmd.Flags().GetString(flagControl)
	if err != nil {
		return nil, err
	}
	file, err := cmd.Flags().GetString(flagStateFile)
	if err != nil {
		return nil, err
	}
	switch {
	case control != "":
		return simulator.NewClient(control), nil
	case file == "":
		return nil, errors.New("which simulator? Give --control URL or --state-file FILE")
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the state file: %w", err)
	}
	var info simulator.Info
	if err := json.Unmarshal(content, &info); err != nil {
		return nil, fmt.Errorf("reading the state file %q: %w", file, err)
	}
	return simulator.NewClient(info.Control), nil
}

// printJSON prints a value for people and programs.
func printJSON(cmd *cobra.Command, value any) error {
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// printf prints a line of text.
func printf(cmd *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format, args...)
	return err
}
