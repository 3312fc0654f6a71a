package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const faultHelp = `Switch a fault on. Several can be on; those that match a request apply in the order they were set.

Faults about requests (all flags but --certificate):
  hang             hold the request until the client gives up or the fault is cleared
  slow             answer after --delay
  reset            read the request, then reset the TCP connection
  status           answer with --status, 400 to 599
  garbage          answer with success and a page of HTML
  truncated        send half of the answer
  empty-catalog    issue tokens without a catalog

Faults about connections (--service; they hit all services behind the same port, see serve --separate-ports):
  reset-connect    reset every new connection at once (takes --times)
  unreachable      refuse connections; the port stays reserved
  bad-certificate  present --certificate wrong-host, other-ca or expired (needs serve --tls)`

const faultExample = `  fault set hang --service share
  fault set status --status 503 --service identity --method POST --times 2
  fault set slow --delay 3s --path /share/v2/types
  fault set reset-connect
  fault set bad-certificate --certificate expired`

// faultCommand sets, lists and clears faults.
func faultCommand() *cobra.Command {
	return group("fault", "Make the cloud fail, and mend it",
		faultSetCommand(),
		drive("list", "List the faults that are on, with how often they struck", cobra.NoArgs,
			func(cmd *cobra.Command, client *simulator.Client, _ []string) error {
				faults, err := client.Faults(cmd.Context())
				if err != nil {
					return err
				}
				return printJSON(cmd, faults)
			}),
		drive("clear [ID...]", "Switch faults off, all or those named, and release what they hold", cobra.ArbitraryArgs,
			func(cmd *cobra.Command, client *simulator.Client, ids []string) error {
				return client.ClearFaults(cmd.Context(), ids...)
			}),
	)
}

// faultSetCommand switches a fault on.
func faultSetCommand() *cobra.Command {
	var fault simulator.Fault
	set := drive("set MODE", "Switch a fault on", cobra.ExactArgs(1),
		func(cmd *cobra.Command, client *simulator.Client, args []string) error {
			fault.Mode = simulator.Mode(args[0])
			added, err := client.SetFault(cmd.Context(), fault)
			if err != nil {
				return err
			}
			return printf(cmd, "%s\n", added.ID)
		})
	set.Long, set.Example = faultHelp, faultExample
	flags := set.Flags()
	services := fmt.Sprintf("`service` to hit, one of %v (default all)", simulator.Services())
	flags.StringVar((*string)(&fault.Service), "service", "", services)
	flags.StringVar(&fault.PathPrefix, "path", "", "hit only URL paths with this `prefix`")
	flags.StringVar(&fault.Method, "method", "", "hit only this HTTP `method`")
	flags.IntVar(&fault.Times, "times", 0, "hit only this often (default no limit)")
	flags.DurationVar(&fault.Delay, "delay", 0, "delay of slow")
	flags.IntVar(&fault.Status, "status", 0, "HTTP status of status")
	flags.StringVar((*string)(&fault.Certificate), "certificate", "", "`kind` of bad-certificate (default wrong-host)")
	return set
}
