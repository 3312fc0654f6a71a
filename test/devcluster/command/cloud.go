package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/devcluster/cloud"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func newCloud(f *flags) *cobra.Command {
	return group("cloud", "Run a simulated OpenStack, or change the one of a running cluster",
		newServe(f), newShareType(f), newZones(f), newCatalog(f),
		newOutage(f), newRecover(f), newTokens(f), newRotate(f), newClouds(f),
		newPrint(f, "ca", "Print the certificate of the private CA",
			func(ctx context.Context, c *simulator.Client) (any, error) {
				ca, err := c.CA(ctx)
				return string(ca), err
			}),
		newPrint(f, "info", "Print the addresses",
			func(ctx context.Context, c *simulator.Client) (any, error) { return c.Info(ctx) }),
		newPrint(f, "outages", "List the faults that are on, and how often each had an effect",
			func(ctx context.Context, c *simulator.Client) (any, error) { return c.Faults(ctx) }),
		newPrint(f, "counters", "Print the counters of requests, logins, connections and revocations",
			func(ctx context.Context, c *simulator.Client) (any, error) { return c.Counters(ctx) }),
		newLog(f),
	)
}

// group returns a command that only has subcommands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	parent := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	parent.AddCommand(commands...)
	return parent
}

// cloudCommand is a command for a running simulator.
type cloudCommand func(cmd *cobra.Command, client *simulator.Client, args []string) error

// drive returns a command for the simulator whose address is in the folder of the devcluster.
func drive(f *flags, use, short string, args cobra.PositionalArgs, do cloudCommand) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.places()
			if err != nil {
				return err
			}
			client, err := cloud.Connect(p.dir.CloudControl())
			if err != nil {
				return err
			}
			return do(cmd, client, args)
		},
	}
}

// newPrint returns a command that prints what it gets, a text as it is and other values as JSON.
func newPrint(
	f *flags, use, short string, get func(context.Context, *simulator.Client) (any, error),
) *cobra.Command {
	return drive(f, use, short, cobra.NoArgs,
		func(cmd *cobra.Command, c *simulator.Client, _ []string) error {
			value, err := get(cmd.Context(), c)
			if err != nil {
				return err
			}
			if text, ok := value.(string); ok {
				_, err := fmt.Fprint(cmd.OutOrStdout(), text)
				return err
			}
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent("", "  ")
			encoder.SetEscapeHTML(false)
			return encoder.Encode(value)
		})
}

// newServe returns a command that runs a simulator without a cluster.
func newServe(f *flags) *cobra.Command {
	var config simulator.Config
	var types []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a simulated OpenStack without a cluster, until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.places()
			if err != nil {
				return err
			}
			for _, name := range types {
				config.ShareTypes = append(config.ShareTypes, simulator.ShareType{Name: name})
			}
			return serveCloud(cmd, p, config)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Listen, "listen", "127.0.0.1:0", "`address` of the OpenStack services")
	flags.StringVar(&config.Control, "control", "127.0.0.1:0", "`address` of the control API")
	flags.BoolVar(&config.SeparatePorts, "separate-ports", false, "use one port for each service")
	flags.StringVar(&config.AdvertisedHost, "advertised-host", "",
		"`host` in URLs, for clients behind a proxy")
	flags.BoolVar(&config.TLS, "tls", false, "serve HTTPS with a private CA; see the command ca")
	flags.StringSliceVar(&config.Regions, "regions", []string{simulator.DefaultRegion},
		"`regions`, the default first")
	flags.StringSliceVar(&types, "share-types", nil, "`names` of share types")
	flags.DurationVar(&config.TokenTTL, "token-ttl", 0, "lifetime of a token (default 1h)")
	flags.StringVar(&config.ManilaMaxVersion, "manila-max-version", "",
		"highest Manila `microversion` (default 2.78)")
	return cmd
}

func serveCloud(cmd *cobra.Command, p places, config simulator.Config) (err error) {
	if client, err := cloud.Connect(p.dir.CloudControl()); err == nil {
		if _, err := client.Info(cmd.Context()); err == nil {
			return fmt.Errorf("a simulated OpenStack runs here already: %s", p.dir)
		}
	}
	simulated, err := simulator.New(config)
	if err != nil {
		return err
	}
	if err := simulated.Start(cmd.Context()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, simulated.Close()) }()
	if err := cloud.Save(p.dir.CloudControl(), simulated.Info()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(p.dir.CloudControl())) }()
	cmd.Println("identity:", simulated.Info().AuthURL)
	<-cmd.Context().Done()
	return nil
}

func newTokens(f *flags) *cobra.Command {
	return group("tokens", "Revoke tokens, or change their lifetime",
		newPrint(f, "revoke", "Revoke all tokens, and print their number",
			func(ctx context.Context, c *simulator.Client) (any, error) { return c.RevokeTokens(ctx) }),
		drive(f, "ttl DURATION", "Change the lifetime of tokens that are issued later",
			cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *simulator.Client, args []string) error {
				ttl, err := time.ParseDuration(args[0])
				if err != nil {
					return fmt.Errorf("decoding the lifetime: %w", err)
				}
				return c.SetTokenTTL(cmd.Context(), ttl)
			}),
	)
}

func newRotate(f *flags) *cobra.Command {
	var rotation simulator.Rotation
	cmd := drive(f, "rotate-credentials",
		"Change the credentials in OpenStack and in the cluster's Secrets", cobra.NoArgs,
		func(cmd *cobra.Command, c *simulator.Client, _ []string) error {
			if _, err := c.RotateCredentials(cmd.Context(), rotation); err != nil {
				return err
			}
			p, err := f.places()
			if err != nil {
				return err
			}
			return renewSecrets(cmd.Context(), p, c)
		})
	flags := cmd.Flags()
	flags.StringVar(&rotation.Password, "password", "", "new password (default random)")
	flags.StringVar(&rotation.ApplicationCredentialID, "application-credential-id", "",
		"new ID (default random)")
	flags.StringVar(&rotation.ApplicationCredentialSecret, "application-credential-secret", "",
		"new secret (default random)")
	flags.BoolVar(&rotation.KeepTokens, "keep-tokens", false,
		"do not revoke the tokens of the old credentials")
	return cmd
}

func newClouds(f *flags) *cobra.Command {
	var options simulator.Clouds
	cmd := newPrint(f, "clouds-yaml", "Print a clouds.yaml with the accepted credentials",
		func(ctx context.Context, c *simulator.Client) (any, error) {
			content, err := c.CloudsYAML(ctx, options)
			return string(content), err
		})
	flags := cmd.Flags()
	flags.StringVar(&options.Cloud, "cloud", "openstack", "`name` of the cloud")
	flags.StringVar((*string)(&options.Auth), "auth", string(simulator.Password),
		"`method`: password, application-credential or application-credential-name")
	flags.StringVar(&options.Region, "region", "", "`region` (default the first)")
	flags.BoolVar(&options.NoRegion, "no-region", false, "omit the region")
	flags.StringVar(&options.CACert, "cacert", "", "`path` of the CA file")
	return cmd
}

func newLog(f *flags) *cobra.Command {
	var since int
	var reset bool
	cmd := drive(f, "log", "Print the log of requests to the OpenStack services", cobra.NoArgs,
		func(cmd *cobra.Command, c *simulator.Client, _ []string) error {
			if reset {
				return c.ResetLog(cmd.Context())
			}
			requests, err := c.Log(cmd.Context(), since)
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "NUMBER\tTIME\tCONNECTION\tTOKEN\tMETHOD\tPATH\tSTATUS\tDONE\tFAULTS")
			for _, r := range requests {
				fmt.Fprintf(table, "%d\t%s\t%d\t%s\t%s\t%s\t%d\t%t\t%v\n", r.Number,
					r.Time.Format("15:04:05.000"),
					r.Connection, r.Token, r.Method, r.Path, r.Status, r.Done, r.Faults)
			}
			return table.Flush()
		})
	cmd.Flags().IntVar(&since, "since", 0, "print only requests with a higher `number`")
	cmd.Flags().BoolVar(&reset, "reset", false, "clear the log and the counters, and print nothing")
	return cmd
}
