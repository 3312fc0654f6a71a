package command

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func newCloud(f *flags) *cobra.Command {
	return group("cloud", "Run a simulated OpenStack, or change the one of a running cluster",
		newShareType(f), newZones(f), newOutage(f),
		f.remote("recover [ID...]", "End all outages, or those with these IDs", cobra.ArbitraryArgs,
			func(_ *cobra.Command, r *running, ids []string) error {
				return r.cloud.ClearFaults(ids...)
			}),
		newRotateCredentials(f),
		f.remote("clouds-yaml", "Print a clouds.yaml with the accepted credentials", cobra.NoArgs,
			func(cmd *cobra.Command, r *running, _ []string) error {
				cmd.Print(string(r.cloud.CloudsYAML(simulator.Clouds{})))
				return nil
			}),
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

func newRotateCredentials(f *flags) *cobra.Command {
	var keepSecrets bool
	cmd := f.remote("rotate-credentials",
		"Change the credentials in OpenStack and in the Secrets of a standalone cluster",
		cobra.NoArgs,
		func(cmd *cobra.Command, r *running, _ []string) error {
			if r.cluster != nil && !keepSecrets {
				return r.cluster.RotateCredentials(cmd.Context())
			}
			r.cloud.RotateCredentials(simulator.Rotation{})
			return nil
		})
	cmd.Flags().BoolVar(&keepSecrets, "keep-secrets", false,
		"change only OpenStack, so that you can change the Secrets")
	return cmd
}

// newServe returns a command that runs a simulator without a cluster.
func newServe(f *flags) *cobra.Command {
	var shareTypes []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a simulated OpenStack without a cluster, until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.places()
			if err != nil {
				return err
			}
			return p.serveCloud(cmd, shareTypes)
		},
	}
	cmd.Flags().StringSliceVar(&shareTypes, "share-types", nil, "`names` of share types")
	return cmd
}

func (p places) serveCloud(cmd *cobra.Command, shareTypes []string) (err error) {
	var config simulator.Config
	for _, name := range shareTypes {
		config.ShareTypes = append(config.ShareTypes, simulator.ShareType{Name: name})
	}
	claim, _, err := cluster.Claim(p.dir)
	if err != nil {
		return err
	}
	defer claim.Close()
	cloud, err := simulator.New(config)
	if err != nil {
		return err
	}
	if err := cloud.Start(cmd.Context()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cloud.Close()) }()
	stop, err := (&running{cloud: cloud}).serve(cmd.Context(), p.dir.Control())
	if err != nil {
		return err
	}
	defer stop()
	cmd.Println("identity:", cloud.Info().AuthURL)
	<-cmd.Context().Done()
	return nil
}

func newShareType(f *flags) *cobra.Command {
	return group("share-type", "Change the share types of Manila",
		f.remote("add NAME", "Add a share type", cobra.ExactArgs(1),
			func(_ *cobra.Command, r *running, args []string) error {
				return r.cloud.AddShareType(simulator.ShareType{Name: args[0]})
			}),
		f.remote("remove NAME", "Remove a share type", cobra.ExactArgs(1),
			func(_ *cobra.Command, r *running, args []string) error {
				return r.cloud.RemoveShareType(args[0])
			}),
	)
}

func newZones(f *flags) *cobra.Command {
	var unavailable []string
	cmd := f.remote("zones compute|volume|share [NAME...]", "Set the availability zones of a service",
		cobra.MinimumNArgs(1),
		func(_ *cobra.Command, r *running, args []string) error {
			var zones []simulator.Zone
			for _, name := range args[1:] {
				zones = append(zones, simulator.Zone{Name: name})
			}
			for _, name := range unavailable {
				zones = append(zones, simulator.Zone{Name: name, Unavailable: true})
			}
			return r.cloud.SetZones(simulator.Service(args[0]), zones...)
		})
	cmd.Long = "Set the availability zones of a service, in this order. " +
		"Without a name the service has none."
	cmd.Flags().StringSliceVar(&unavailable, "unavailable", nil,
		"further zones, which are listed as not available")
	return cmd
}

// slowness is the default delay of mode slow. No client should wait as long.
const slowness = 30 * time.Second

const outageHelp = `Make OpenStack fail until recover, and print the ID of the fault. Several faults
can be on; those that match a request apply in the order in which they were set. KIND is an HTTP
status such as 503, or a mode.

Modes about requests (all flags but --certificate):
  hang             hold the request until the client gives up or the fault is cleared
  slow             respond after --delay
  reset            read the request, then reset the TCP connection
  garbage          respond with success and a page of HTML
  truncated        send half of the response
  empty-catalog    issue tokens without a catalog

Modes about connections, which affect all services:
  unreachable      refuse connections; the port stays reserved. This is the default
  reset-connect    reset every new connection at once (takes --times)
  bad-certificate  present --certificate wrong-host, other-ca or expired (needs run --tls)`

func newOutage(f *flags) *cobra.Command {
	var fault simulator.Fault
	cmd := f.remote("outage [KIND]", "Make OpenStack fail until recover", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, r *running, args []string) error {
			fault.Mode = simulator.Unreachable
			if len(args) > 0 {
				fault.Mode = simulator.Mode(args[0])
			}
			if status, err := strconv.Atoi(string(fault.Mode)); err == nil {
				fault.Mode, fault.Status = simulator.Status, status
			}
			if fault.Mode == simulator.Slow {
				fault.Delay = cmp.Or(fault.Delay, slowness)
			}
			added, err := r.cloud.SetFault(fault)
			if err != nil {
				return err
			}
			cmd.Println(added.ID)
			return nil
		})
	cmd.Long = outageHelp
	flags := cmd.Flags()
	flags.StringVar((*string)(&fault.Service), "service", "",
		fmt.Sprintf("affected `service`, one of %v (default all)", simulator.Services()))
	flags.StringVar(&fault.PathPrefix, "path", "", "affect only URL paths with this `prefix`")
	flags.StringVar(&fault.Method, "method", "", "affect only this HTTP `method`")
	flags.IntVar(&fault.Times, "times", 0, "affect only so many requests (default no limit)")
	flags.DurationVar(&fault.Delay, "delay", 0, "delay of mode slow (default 30s)")
	flags.StringVar((*string)(&fault.Certificate), "certificate", "",
		"`kind` of bad certificate (default wrong-host)")
	return cmd
}
