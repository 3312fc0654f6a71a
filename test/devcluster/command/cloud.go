package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/openstack-csi/csi-operator/test/devcluster/cloud"
	"github.com/openstack-csi/csi-operator/test/devcluster/seed"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func newCloud(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "cloud", Short: "Change the OpenStack of a running cluster"}
	cmd.AddCommand(newShareType(f), newOutage(f), newRecover(f), newRotate(f))
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

// rotate changes the Secrets; the running cluster shows them in the operator's
// files.
func rotate(ctx context.Context, p places, client *simulator.Client) error {
	if _, err := client.RotateCredentials(ctx, simulator.Rotation{}); err != nil {
		return err
	}
	described, err := cloud.Describe(ctx, client)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.dir.AdminKubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	writer, err := seed.NewWriter(config)
	if err != nil {
		return err
	}
	values := seed.Values{InfrastructureName: seed.InfrastructureName, Cloud: described}
	return seed.Apply(ctx, writer, seed.OpenStackFolder, values)
}
