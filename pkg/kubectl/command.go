// Package kubectl is the plugin `kubectl openstack-csi`. It reads objects of a cluster, and prints
// what package diagnosis decides about them. cmd/kubectl-openstack_csi calls it.
package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/openstack-csi/csi-operator/pkg/version"
)

// The exit codes. Those of the command csi-addons mean the same. docs/kubectl.md describes them.
const (
	exitOK          = 0
	exitFailed      = 1 // there is a problem, or the API server returned an error
	exitUsage       = 2
	exitUnreachable = 4 // the API server does not answer
	exitDeadline    = 5
)

// Streams are the standard streams of the process.
type Streams struct {
	Out, Err io.Writer
	// Color says whether Out is a terminal that shows colors.
	Color bool
}

// Main executes the command, and returns the exit code. It writes the result to Out, and progress
// and errors to Err.
func Main(ctx context.Context, args []string, streams Streams) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return execute(ctx, newOptions(), args, streams)
}

func execute(ctx context.Context, o *options, args []string, streams Streams) int {
	cmd := newCommand(o, streams) //nolint:contextcheck // the command gets the context below
	cmd.SetArgs(args)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.Err)
	err := cmd.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errProblem) {
		fmt.Fprintf(streams.Err, "kubectl openstack-csi: %s\n", printable(err.Error()))
	}
	return exitCode(err)
}

// errProblem says that the output contains a problem.
var errProblem = errors.New("there is a problem")

// errDeadline says that the time of the flag --timeout has passed.
var errDeadline = errors.New("the time limit has passed")

// usageError is an error in the arguments or flags.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func exitCode(err error) int {
	wrong, status := usageError{}, apierrors.APIStatus(nil)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrong):
		return exitUsage
	case errors.Is(err, errDeadline):
		return exitDeadline
	case errors.Is(err, errProblem), errors.Is(err, context.Canceled), errors.As(err, &status):
		return exitFailed
	case isUnreachable(err):
		return exitUnreachable
	}
	return exitFailed
}

func newCommand(o *options, streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "openstack-csi",
		Short: "Show and change the state of the CSI drivers of OpenStack",
		Long: "Show and change the state of the CSI drivers of OpenStack, Cinder and Manila.\n\nExit " +
			"codes: 0 no problem, 1 a problem or an error, 2 the arguments are wrong, 4 the API server " +
			"does not answer, 5 it takes longer than --timeout.",
		Version:      version.Get().GitVersion,
		Annotations:  map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl openstack-csi"},
		SilenceUsage: true, SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			similar := append(cmd.SuggestionsFor(args[0]), "--help")
			return usage("unknown command %q: try %s", args[0], similar[0])
		},
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	o.addTo(root.PersistentFlags())
	printVersion := &cobra.Command{
		Use: "version", Short: "Print the version", Args: atMost(0),
		Run: func(*cobra.Command, []string) { fmt.Fprintln(streams.Out, root.Version) },
	}
	root.AddCommand(newCheckCommand(o, streams), newStatusCommand(o, streams),
		newWhyCommand(o, streams), newVolumesCommand(o, streams), newRotateCommand(o, streams),
		newMustGatherCommand(o, streams), printVersion)
	return root
}
