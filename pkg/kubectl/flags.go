package kubectl

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// The values of the flag --output.
const (
	textOutput = "text"
	jsonOutput = "json"
	yamlOutput = "yaml"
	// wideOutput is text with more columns, of the command volumes.
	wideOutput = "wide"
)

func (o *options) addTo(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&o.kubeconfig, clientcmd.RecommendedConfigPathFlag, "",
		"Path of the kubeconfig.")
	clientcmd.BindOverrideFlags(&o.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	flags.StringVar(&o.managementKubeconfig, "management-kubeconfig", "",
		"On HyperShift, the kubeconfig of the management cluster.")
	flags.StringVar(&o.hostedControl, "management-namespace", "",
		"On HyperShift, the namespace of the hosted control plane in the management cluster.")
	completes(root, "namespace", o.completeNamespace)
}

func addTimeoutTo(flags *pflag.FlagSet, limit time.Duration) {
	flags.Duration("timeout", limit, "Maximum duration of the command.")
}

// addOutputTo adds the flags of commands that print objects.
func (o *options) addOutputTo(cmd *cobra.Command) {
	addTimeoutTo(cmd.Flags(), 5*time.Minute)
	cmd.Flags().StringVarP(&o.output, "output", "o", textOutput,
		"Format of the output: "+strings.Join(formats(cmd.Name()), ", ")+".")
	completes(cmd, "output", cobra.FixedCompletions(formats(cmd.Name()), onlyWords))
}

// formats returns the values of --output of a command.
func formats(command string) []string {
	all := []string{textOutput, jsonOutput, yamlOutput}
	if command == volumesCommand {
		all = append(all, wideOutput)
	}
	return all
}

// hideOptions leaves the flags of the connection out of the help of all commands, as kubectl does.
// It returns the command that prints them.
func hideOptions(root *cobra.Command, o *options) *cobra.Command {
	flags, printUsage := root.PersistentFlags(), root.UsageFunc()
	hide := func(hidden bool) {
		flags.VisitAll(func(f *pflag.Flag) { f.Hidden = hidden })
	}
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		hide(true)
		defer hide(false)
		err := printUsage(cmd)
		fmt.Fprint(cmd.OutOrStderr(), "\nUse \"kubectl openstack-csi options\" for the flags of all "+
			"commands, such as --namespace.\n")
		return err
	})
	return &cobra.Command{
		Use: "options", Short: "Print the flags that all commands have", Args: atMost(0),
		Run: func(*cobra.Command, []string) { fmt.Fprint(o.Out, flags.FlagUsagesWrapped(width)) },
	}
}
