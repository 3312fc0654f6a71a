// Package kubectl is the plugin `kubectl openstack-csi`. It reads objects of a cluster, and prints
// what package diagnosis decides about them. cmd/kubectl-openstack_csi calls it.
package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	In       io.Reader
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
	o.Streams = streams
	cmd := newCommand(o) //nolint:contextcheck // the command gets the context below
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

func newCommand(o *options) *cobra.Command {
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
	o.addTo(root)
	printOptions := hideOptions(root, o)
	printVersion := &cobra.Command{
		Use: "version", Short: "Print the version", Args: atMost(0),
		Run: func(*cobra.Command, []string) { fmt.Fprintln(o.Out, root.Version) },
	}
	root.AddCommand(newCheckCommand(o), newStatusCommand(o), newWhyCommand(o), newVolumesCommand(o),
		newRotateCommand(o), newRestrictCommand(o), newUninstallCommand(o), newMustGatherCommand(o),
		printVersion, printOptions)
	return root
}

// options are the values of the flags that all commands have.
type options struct {
	Streams

	kubeconfig string
	overrides  clientcmd.ConfigOverrides

	managementKubeconfig, hostedControl string
	output                              string
	timeout                             time.Duration
	verbose                             bool
	// clusterless means that a command does not need a kubeconfig.
	clusterless bool

	clock clock.PassiveClock
	// interval is the time between two reports of `status --wait`.
	interval time.Duration
	connect  func(*rest.Config) (client.WithWatch, error)
	readLogs func(*rest.Config) (logReader, error)
	// discover returns the kinds of a cluster.
	discover func(*rest.Config) (discovery.ServerResourcesInterface, error)
}

func newOptions() *options {
	return &options{
		clock: clock.RealClock{}, interval: 2 * time.Second, connect: connect, readLogs: newLogReader,
		discover: func(config *rest.Config) (discovery.ServerResourcesInterface, error) {
			return discovery.NewDiscoveryClientForConfig(config)
		},
	}
}

// session is the execution of a command.
type session struct {
	*options

	guest *cluster
	// management is nil unless a flag names the management cluster.
	management *cluster
	namespace  string
	// systems are the drivers that systemOf has read.
	systems map[string]*system
	// attached are the VolumeAttachments that attachments has read.
	attached []storagev1.VolumeAttachment
	// cloud is the OpenStack that the command asks, if a flag names it.
	cloud cloud
	// err is why there is no answer.
	err error
	// again is how to run the command again that until has ended.
	again string
	// more are findings of the status that are not about objects of the cluster.
	more []Finding
}

// runner is the function of a cobra command.
type runner = func(*cobra.Command, []string) error

// run returns a runner that connects, and sets the time limit.
func (o *options) run(do func(context.Context, *session, []string) error) runner {
	return func(cmd *cobra.Command, args []string) error {
		var err error
		if o.timeout, err = cmd.Flags().GetDuration("timeout"); err != nil {
			return usageError{err}
		}
		if err := o.validate(cmd.Name()); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
		defer cancel()
		s, err := o.open()
		if err != nil {
			return err
		}
		if !o.clusterless {
			s.guest.recognize(ctx)
		}
		err = do(ctx, s, args)
		if err != nil && !errors.Is(err, errDeadline) &&
			errors.Is(ctx.Err(), context.DeadlineExceeded) {
			late := fmt.Errorf("%w: --timeout=%v", errDeadline, o.timeout)
			if !isUnreachable(err) {
				return late
			}
			err = fmt.Errorf("%w: %w", late, err) // it names the request
		}
		return err
	}
}

func (o *options) validate(command string) error {
	allowed := formats(command)
	switch {
	case o.output != "" && !slices.Contains(allowed, o.output):
		return usage("--output=%q: use %s", o.output, strings.Join(allowed, ", "))
	case o.timeout <= 0:
		return usage("--timeout=%v: use a positive duration", o.timeout)
	case (o.managementKubeconfig == "") != (o.hostedControl == ""):
		return usage("set both --management-kubeconfig and --management-namespace, or none")
	}
	return nil
}

func (o *options) open() (*session, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &o.overrides)
	s := &session{options: o, systems: map[string]*system{}}
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err) && o.clusterless:
		return s, nil
	case clientcmd.IsEmptyConfig(err):
		return nil, usage("no kubeconfig: set KUBECONFIG, or use --kubeconfig")
	case err == nil:
		s.namespace, _, err = loader.Namespace()
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("loading the kubeconfig: %w", err)}
	}
	if s.guest, err = o.dial(config, ""); err != nil {
		return nil, err
	}
	if o.managementKubeconfig == "" {
		return s, nil
	}
	config, err = clientcmd.BuildConfigFromFlags("", o.managementKubeconfig)
	if err != nil {
		return nil, usageError{fmt.Errorf("loading --management-kubeconfig: %w", err)}
	}
	s.management, err = o.dial(config, " of the management cluster")
	return s, err
}

func (o *options) dial(config *rest.Config, of string) (*cluster, error) {
	config.QPS = -1 // priority and fairness of the API server protect it
	config.WarningHandler = rest.NoWarnings{}
	c, err := o.connect(config)
	if err != nil {
		return nil, err
	}
	logs, err := o.readLogs(config)
	if err != nil {
		return nil, err
	}
	config.Timeout = o.timeout // of each request of discovery, which has no context
	resources, err := o.discover(config)
	return &cluster{
		WithWatch: c, of: of, hidden: map[string]bool{}, logs: logs, resources: resources,
	}, err
}

// isUnreachable returns whether the API server did not answer. It does not look for net.Error,
// which errors of files implement, too.
func isUnreachable(err error) bool {
	_, request := errors.AsType[*url.Error](err)
	_, connection := errors.AsType[*net.OpError](err)
	return request || connection
}
