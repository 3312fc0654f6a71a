package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const stateFileMode = 0o600

// serveCommand runs a simulator until the process is told to stop.
func serveCommand() *cobra.Command {
	var config simulator.Config
	var types []string
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run a simulated cloud until interrupted",
		Long: `Run a simulated cloud until interrupted. Prints the addresses; with --state-file it also writes them as JSON, for
the other commands, and removes the file at the end.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range types {
				config.ShareTypes = append(config.ShareTypes, simulator.ShareType{Name: name})
			}
			return serve(cmd, config)
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.Listen, "listen", "127.0.0.1:0", "`address` of the OpenStack services; port 0 is any free one")
	flags.StringVar(&config.Control, flagControl, "127.0.0.1:0", "`address` of the control API")
	flags.BoolVar(&config.SeparatePorts, "separate-ports", false, "give each service a port of its own")
	flags.StringVar(&config.AdvertisedHost, "advertised-host", "", "`host` to put into URLs, for clients behind a proxy")
	flags.BoolVar(&config.TLS, "tls", false, "serve HTTPS with a private CA; see the command ca")
	flags.StringSliceVar(&config.Regions, "regions", []string{simulator.DefaultRegion}, "`regions`, the default one first")
	flags.StringSliceVar(&types, "share-types", nil, "`names` of the share types that exist from the start")
	flags.DurationVar(&config.TokenTTL, "token-ttl", 0, "life of a token (default 1h)")
	flags.StringVar(&config.ManilaMaxVersion, "manila-max-version", "", "highest Manila `microversion` (default 2.78)")
	return command
}

// serve runs the simulator and says where it is.
func serve(cmd *cobra.Command, config simulator.Config) (err error) {
	cloud, err := simulator.New(config)
	if err != nil {
		return err
	}
	if err := cloud.Start(cmd.Context()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cloud.Close()) }()
	file, err := cmd.Flags().GetString(flagStateFile)
	if err != nil {
		return err
	}
	if file != "" {
		if err := writeState(file, cloud.Info()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Remove(file)) }()
	}
	info := cloud.Info()
	if err := printf(cmd, "identity: %s\ncontrol:  %s\n", info.AuthURL, info.Control); err != nil {
		return err
	}
	<-cmd.Context().Done()
	return nil
}

// writeState writes the addresses in one step, so that a reader who waits for the file finds it whole.
func writeState(file string, info simulator.Info) error {
	content, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	partial := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".partial")
	if err := os.WriteFile(partial, append(content, '\n'), stateFileMode); err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	if err := os.Rename(partial, file); err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	return nil
}
