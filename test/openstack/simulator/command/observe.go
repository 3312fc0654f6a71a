package command

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// infoCommand prints where the simulator is.
func infoCommand() *cobra.Command {
	return drive("info", "Print the addresses of the simulator", cobra.NoArgs,
		func(cmd *cobra.Command, client *simulator.Client, _ []string) error {
			info, err := client.Info(cmd.Context())
			if err != nil {
				return err
			}
			return printJSON(cmd, info)
		})
}

// countersCommand prints the counters.
func countersCommand() *cobra.Command {
	return drive("counters", "Print the counters of requests, logins, connections and revocations", cobra.NoArgs,
		func(cmd *cobra.Command, client *simulator.Client, _ []string) error {
			counters, err := client.Counters(cmd.Context())
			if err != nil {
				return err
			}
			return printJSON(cmd, counters)
		})
}

// logCommand prints or resets the request log.
func logCommand() *cobra.Command {
	var since int
	var asJSON, reset bool
	log := drive("log", "Print the log of requests to the OpenStack services", cobra.NoArgs,
		func(cmd *cobra.Command, client *simulator.Client, _ []string) error {
			if reset {
				return client.ResetLog(cmd.Context())
			}
			requests, err := client.Log(cmd.Context(), since)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, requests)
			}
			return printLog(cmd, requests)
		})
	log.Flags().IntVar(&since, "since", 0, "print only requests with a higher `number`")
	log.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	log.Flags().BoolVar(&reset, "reset", false, "print nothing, but empty the log and set the counters to zero")
	return log
}

// printLog prints one line per request.
func printLog(cmd *cobra.Command, requests []simulator.Request) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NUMBER\tTIME\tCONNECTION\tTOKEN\tMETHOD\tPATH\tSTATUS\tFAULTS")
	for _, r := range requests {
		status := fmt.Sprint(r.Status)
		switch {
		case !r.Done:
			status = "pending"
		case r.Status == 0:
			status = "none"
		}
		faults := ""
		for i, mode := range r.Faults {
			if i > 0 {
				faults += ","
			}
			faults += string(mode)
		}
		_, _ = fmt.Fprintf(table, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", r.Number, r.Time.Format("15:04:05.000"),
			r.Connection, r.Token, r.Method, r.Path, status, faults)
	}
	return table.Flush() // reports what the lines above could not write
}
