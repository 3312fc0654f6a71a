package command

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func newShareType(f *flags) *cobra.Command {
	var added simulator.ShareType
	add := drive(f, "add NAME", "Add a share type", cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *simulator.Client, args []string) error {
			added.Name = args[0]
			_, err := c.AddShareType(cmd.Context(), added)
			return err
		})
	add.Flags().BoolVar(&added.Private, "private", false, "hide it from the user of the credentials")
	add.Flags().BoolVar(&added.Default, "default", false, "make it the default share type of Manila")
	add.Flags().StringVar(&added.Description, "description", "", "description of the share type")
	return group("share-type", "Change the share types of Manila", add,
		drive(f, "remove NAME", "Remove a share type", cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *simulator.Client, args []string) error {
				return c.RemoveShareType(cmd.Context(), args[0])
			}),
		newPrint(f, "list", "List all share types",
			func(ctx context.Context, c *simulator.Client) (any, error) { return c.ShareTypes(ctx) }),
		drive(f, "order added|reversed|shuffled", "Change the order in which Manila lists them",
			cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *simulator.Client, args []string) error {
				return c.SetShareTypeOrder(cmd.Context(), simulator.Order(args[0]))
			}),
	)
}

func newZones(f *flags) *cobra.Command {
	var unavailable []string
	cmd := drive(f, "zones compute|volume [NAME...]", "Set the availability zones of a service",
		cobra.MinimumNArgs(1),
		func(cmd *cobra.Command, c *simulator.Client, args []string) error {
			var zones []simulator.Zone
			for _, name := range args[1:] {
				zones = append(zones, simulator.Zone{Name: name})
			}
			for _, name := range unavailable {
				zones = append(zones, simulator.Zone{Name: name, Unavailable: true})
			}
			return c.SetZones(cmd.Context(), simulator.Service(args[0]), zones...)
		})
	cmd.Long = "Set the availability zones of a service, in this order. " +
		"Without a name the service has none."
	cmd.Flags().StringSliceVar(&unavailable, "unavailable", nil,
		"further zones, which are listed as not available")
	return cmd
}

func newCatalog(f *flags) *cobra.Command {
	return group("catalog", "Change the service catalog",
		newPrint(f, "list", "List the entries of the catalog",
			func(ctx context.Context, c *simulator.Client) (any, error) { return c.Catalog(ctx) }),
		drive(f, "remove TYPE", "Remove a service type, such as sharev2, from the catalog of new tokens",
			cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *simulator.Client, args []string) error {
				return c.RemoveFromCatalog(cmd.Context(), args[0])
			}),
		drive(f, "restore TYPE", "Undo remove", cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *simulator.Client, args []string) error {
				return c.RestoreToCatalog(cmd.Context(), args[0])
			}),
	)
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

Modes about connections (--service; they affect all services on the same port,
see serve --separate-ports):
  unreachable      refuse connections; the port stays reserved. This is the default
  reset-connect    reset every new connection at once (takes --times)
  bad-certificate  present --certificate wrong-host, other-ca or expired (needs --tls)`

func newOutage(f *flags) *cobra.Command {
	var fault simulator.Fault
	cmd := drive(f, "outage [KIND]", "Make OpenStack fail until recover", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, c *simulator.Client, args []string) error {
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
			added, err := c.SetFault(cmd.Context(), fault)
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

func newRecover(f *flags) *cobra.Command {
	return drive(f, "recover [ID...]", "End all outages, or those with these IDs", cobra.ArbitraryArgs,
		func(cmd *cobra.Command, c *simulator.Client, ids []string) error {
			return c.ClearFaults(cmd.Context(), ids...)
		})
}
