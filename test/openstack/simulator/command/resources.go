package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// typesCommand changes the share types.
func typesCommand() *cobra.Command {
	var added simulator.ShareType
	add := drive("add NAME", "Add a share type", cobra.ExactArgs(1),
		func(cmd *cobra.Command, client *simulator.Client, args []string) error {
			added.Name = args[0]
			_, err := client.AddShareType(cmd.Context(), added)
			return err
		})
	add.Flags().BoolVar(&added.Private, "private", false, "hide it from the user of the credentials")
	add.Flags().BoolVar(&added.Default, "default", false, "make it Manila's default share type")
	add.Flags().StringVar(&added.Description, "description", "", "description of the share type")
	return group("types", "Change the share types of Manila", add,
		drive("remove NAME", "Remove a share type", cobra.ExactArgs(1),
			func(cmd *cobra.Command, client *simulator.Client, args []string) error {
				return client.RemoveShareType(cmd.Context(), args[0])
			}),
		drive("list", "List all share types", cobra.NoArgs,
			func(cmd *cobra.Command, client *simulator.Client, _ []string) error {
				types, err := client.ShareTypes(cmd.Context())
				if err != nil {
					return err
				}
				return printJSON(cmd, types)
			}),
		drive("order added|reversed|shuffled", "Change the order in which Manila lists them", cobra.ExactArgs(1),
			func(cmd *cobra.Command, client *simulator.Client, args []string) error {
				return client.SetShareTypeOrder(cmd.Context(), simulator.Order(args[0]))
			}),
	)
}

// zonesCommand changes the availability zones.
func zonesCommand() *cobra.Command {
	set := drive("set SERVICE NAME[=down]...", "Replace the availability zones of compute or volume",
		cobra.MinimumNArgs(1),
		func(cmd *cobra.Command, client *simulator.Client, args []string) error {
			var zones []simulator.Zone
			for _, arg := range args[1:] {
				name, down := strings.CutSuffix(arg, "=down")
				zones = append(zones, simulator.Zone{Name: name, Unavailable: down})
			}
			return client.SetZones(cmd.Context(), simulator.Service(args[0]), zones...)
		})
	set.Example = "  zones set compute az1 az2=down"
	return group("zones", "Change the availability zones of Nova and Cinder", set,
		drive("list SERVICE", "List the availability zones of compute or volume", cobra.ExactArgs(1),
			func(cmd *cobra.Command, client *simulator.Client, args []string) error {
				zones, err := client.Zones(cmd.Context(), simulator.Service(args[0]))
				if err != nil {
					return err
				}
				return printJSON(cmd, zones)
			}),
	)
}

// catalogCommand changes the service catalog.
func catalogCommand() *cobra.Command {
	return group("catalog", "Change the service catalog",
		drive("list", "List the entries of the catalog", cobra.NoArgs,
			func(cmd *cobra.Command, client *simulator.Client, _ []string) error {
				entries, err := client.Catalog(cmd.Context())
				if err != nil {
					return err
				}
				return printJSON(cmd, entries)
			}),
		drive("remove TYPE", "Take a service type, such as sharev2, out of new tokens' catalog", cobra.ExactArgs(1),
			func(cmd *cobra.Command, client *simulator.Client, args []string) error {
				return client.RemoveFromCatalog(cmd.Context(), args[0])
			}),
		drive("restore TYPE", "Put a service type back", cobra.ExactArgs(1),
			func(cmd *cobra.Command, client *simulator.Client, args []string) error {
				return client.RestoreToCatalog(cmd.Context(), args[0])
			}),
	)
}
