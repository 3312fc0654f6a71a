package command

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/openstack-csi/csi-operator/test/devcluster/cloud"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func newCloud(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "cloud", Short: "Change the OpenStack of a running cluster"}
	cmd.AddCommand(newShareType(f), newZones(f), newOutage(f), newRecover(f), newRotate(f))
	return cmd
}

// withCloud finds the running simulator.
func (f *flags) withCloud(cmd *cobra.Command, change func(context.Context, places, *simulator.Client) error) error {
	p, err := f.places()
	if err != nil {
		return err
	}
	client, err := cloud.Connect(p.dir.CloudControl())
	if err != nil {
		return err
	}
	return change(cmd.Context(), p, client)
}

func newShareType(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "share-type", Short: "Add or remove a Manila share type"}
	cmd.AddCommand(
		&cobra.Command{
			Use: "add NAME", Short: "Add a share type", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return f.withCloud(cmd, func(ctx context.Context, _ places, c *simulator.Client) error {
					_, err := c.AddShareType(ctx, simulator.ShareType{Name: args[0]})
					return err
				})
			},
		},
		&cobra.Command{
			Use: "remove NAME", Short: "Remove a share type", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return f.withCloud(cmd, func(ctx context.Context, _ places, c *simulator.Client) error {
					return c.RemoveShareType(ctx, args[0])
				})
			},
		},
	)
	return cmd
}

func newZones(f *flags) *cobra.Command {
	var unavailable []string
	services := []string{string(simulator.Compute), string(simulator.Volume)}
	cmd := &cobra.Command{
		Use:   "zones " + strings.Join(services, "|") + " [NAME...]",
		Short: "Set the availability zones of a service",
		Long:  "Set the availability zones of a service, in this order. Without a name it has none.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(services, args[0]) {
				return fmt.Errorf("service %q has no availability zones, only %s", args[0], strings.Join(services, " and "))
			}
			var zones []simulator.Zone
			for _, name := range args[1:] {
				zones = append(zones, simulator.Zone{Name: name})
			}
			for _, name := range unavailable {
				zones = append(zones, simulator.Zone{Name: name, Unavailable: true})
			}
			return f.withCloud(cmd, func(ctx context.Context, _ places, c *simulator.Client) error {
				return c.SetZones(ctx, simulator.Service(args[0]), zones...)
			})
		},
	}
	cmd.Flags().StringSliceVar(&unavailable, "unavailable", nil, "further zones, which are listed as not available")
	return cmd
}

func newOutage(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "outage [KIND]",
		Short: "Make OpenStack fail until recover",
		Long: "Make OpenStack fail until recover. KIND is an HTTP status such as 503, or one of:\n" +
			cloud.OutageKinds() + ".\nWithout it, OpenStack is " + cloud.DefaultOutage + ".",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := cloud.DefaultOutage
			if len(args) > 0 {
				kind = args[0]
			}
			fault, err := cloud.Outage(kind)
			if err != nil {
				return err
			}
			return f.withCloud(cmd, func(ctx context.Context, _ places, c *simulator.Client) error {
				_, err := c.SetFault(ctx, fault)
				return err
			})
		},
	}
}

func newRecover(f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "recover", Short: "End all outages", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.withCloud(cmd, func(ctx context.Context, _ places, c *simulator.Client) error {
				return c.ClearFaults(ctx)
			})
		},
	}
}

func newRotate(f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "rotate-credentials", Short: "Change the password in OpenStack and in the cluster's Secrets", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.withCloud(cmd, rotate)
		},
	}
}

// rotate changes the Secrets of all operators and drivers, as
// cloud-credential-operator or HyperShift would; the running cluster shows them in
// the operators' files.
func rotate(ctx context.Context, p places, client *simulator.Client) error {
	if _, err := client.RotateCredentials(ctx, simulator.Rotation{}); err != nil {
		return err
	}
	described, err := cloud.Describe(ctx, client)
	if err != nil {
		return err
	}
	guests, err := p.dir.Guests()
	if err != nil {
		return err
	}
	if len(guests) == 0 {
		operators, err := operatorsIn(p.dir)
		if err != nil {
			return err
		}
		return renew(ctx, p.dir, fixtures.Standalone(operators), described)
	}
	for _, guest := range guests {
		operators, err := operatorsIn(p.dir.Guest(guest))
		if err != nil {
			return err
		}
		if err := renew(ctx, p.dir, fixtures.ControlPlane(guest, operators), described); err != nil {
			return err
		}
		if err := renew(ctx, p.dir.Guest(guest), fixtures.Guest(guest, operators), described); err != nil {
			return err
		}
	}
	return nil
}

// renew changes the Secrets of one side in the cluster that has its files in dir.
func renew(ctx context.Context, dir paths.Dir, side fixtures.Side, described fixtures.Cloud) error {
	config, err := clientcmd.BuildConfigFromFlags("", dir.AdminKubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	writer, err := fixtures.NewWriter(config)
	if err != nil {
		return err
	}
	side.Values.Cloud = described
	return side.RenewCredentials(ctx, writer)
}

// operatorsIn are those that a running cluster is for: they have kubeconfigs.
func operatorsIn(dir paths.Dir) ([]fixtures.Operator, error) {
	all, err := fixtures.AllOperators()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(o fixtures.Operator) bool {
		_, err := os.Stat(dir.Kubeconfig(o.Name))
		return err != nil
	}), nil
}
