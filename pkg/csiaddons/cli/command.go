// Package cli is the command csi-addons, which calls the CSI-Addons services of a driver on its
// socket, without the controller. The image of the sidecar contains it, for tests and repairs.
package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// The exit codes. docs/csi-addons/drivers.md describes them.
const (
	exitOK          = 0
	exitFailed      = 1 // the driver or the API server returned another error
	exitUsage       = 2
	exitUnsupported = 3 // the driver does not have the operation
	exitUnreachable = 4 // the driver or the API server does not answer
	exitDeadline    = 5
)

// Main executes the command, and returns the exit code. Results go to stdout, and errors to stderr.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	cmd := newCommand() //nolint:contextcheck // the command gets the context below
	cmd.SetArgs(normalized(args, cmd.Flags()))
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "csi-addons: %s\n", messageOf(err))
	}
	return exitCode(err)
}

// normalized returns arguments in which each long flag has two hyphens. The tool of the CSI-Addons
// for Ceph documents one.
func normalized(args []string, set *pflag.FlagSet) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(name) > 1 && strings.HasPrefix(arg, "-") && set.Lookup(name) != nil {
			args[i] = "-" + arg
		}
	}
	return args
}

// usageError is an error in the flags.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func exitCode(err error) int {
	if _, ok := err.(usageError); ok { //nolint:errorlint // no caller wraps it
		return exitUsage
	}
	switch status.Code(err) {
	case codes.OK:
		return exitOK
	case codes.Unimplemented:
		return exitUnsupported
	case codes.Unavailable:
		return exitUnreachable
	case codes.DeadlineExceeded:
		return exitDeadline
	default:
		return exitFailed
	}
}

// messageOf returns the text of an error. The code of a gRPC status precedes its message.
func messageOf(err error) string {
	if got, ok := status.FromError(err); ok {
		return fmt.Sprintf("%v: %s", got.Code(), got.Message())
	}
	return err.Error()
}

func newCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "csi-addons --operation=OPERATION",
		Short: "Call the CSI-Addons services of a driver",
		Long: "Call the CSI-Addons services of a driver on its socket.\n\nOperations: " +
			strings.Join(operationNames(), ", ") + ".\n\nExit codes: 0 success, 1 the operation failed, " +
			"2 the flags are wrong, 3 the driver does not have the operation, 4 the driver or the API " +
			"server does not answer, 5 the operation takes longer than --timeout.",
		Version: version.Get().String(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unexpected argument %q", args[0])
			}
			return nil
		},
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	o.addTo(cmd.Flags())
	return cmd
}

func (o *options) run(ctx context.Context, out io.Writer) error {
	operation, ok := operations()[o.operation]
	if !ok {
		return usage("--operation=%q: use one of %s", o.operation, strings.Join(operationNames(), ", "))
	}
	if o.output != tableOutput && o.output != jsonOutput {
		return usage("--output=%q: use %s or %s", o.output, tableOutput, jsonOutput)
	}
	if o.timeout <= 0 {
		return usage("--timeout=%v: use a positive duration", o.timeout)
	}
	client, err := driver.New(o.endpoint)
	if err != nil {
		return usageError{err}
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	answer, err := operation.execute(ctx, &call{options: o, driver: client})
	if err != nil {
		return err
	}
	return o.print(out, answer)
}

func operationNames() []string { return slices.Sorted(maps.Keys(operations())) }

const defaultTimeout = 3 * time.Minute

// options are the values of the flags.
type options struct {
	operation, endpoint, output, kubeconfig       string
	timeout                                       time.Duration
	volume, groupContent, stagingPath, driverName string
	secret, clusterID, groupID, groupName         string
	cidrs, volumeIDs                              []string
	parameters                                    map[string]string
	legacy, force                                 bool
}

// addTo registers the flags. The names are those of the tool of the CSI-Addons for Ceph; the flags
// kubeconfig, output, timeout and force are new.
func (o *options) addTo(set *pflag.FlagSet) {
	set.StringVar(&o.operation, "operation", "", "Operation to execute.")
	set.StringVar(&o.endpoint, "endpoint", "unix:///run/csi-addons/socket",
		"Socket on which the driver serves CSI-Addons.")
	set.StringVarP(&o.output, "output", "o", tableOutput, "Format of the answer: table or json.")
	set.DurationVar(&o.timeout, "timeout", defaultTimeout, "Maximum duration of the operation.")
	set.StringVar(&o.kubeconfig, "kubeconfig", "",
		"Path of the kubeconfig to use instead of the identity of the pod.")
	set.StringVar(&o.volume, "persistentvolume", "", "Name of the PersistentVolume.")
	set.StringVar(&o.groupContent, "volumegroupreplicationcontent", "",
		"Name of the VolumeGroupReplicationContent that contains the ID of the volume group.")
	set.StringVar(&o.stagingPath, "stagingpath", "/var/lib/kubelet/plugins/kubernetes.io/csi/",
		"Folder in which kubelet stages volumes.")
	set.StringVar(&o.driverName, "drivername", "",
		"Name of the driver of the volume. The default is the driver at the endpoint.")
	set.StringVar(&o.secret, "secret", "", "Secret for the driver, as namespace/name. By default, "+
		"for a PersistentVolume, the Secret with which kubelet stages it.")
	set.StringSliceVar(&o.cidrs, "cidrs", nil, "CIDRs of the clients to fence.")
	set.StringVar(&o.clusterID, "clusterid", "", "Adds the parameter clusterID.")
	set.StringToStringVar(&o.parameters, "parameters", nil, "Parameters for the driver, as key=value.")
	set.StringSliceVar(&o.volumeIDs, "volumeids", nil, "IDs of the volumes of a volume group.")
	set.StringVar(&o.groupID, "volumegroupid", "", "ID of the volume group.")
	set.StringVar(&o.groupName, "volumegroupname", "", "Name of the volume group to create.")
	set.BoolVar(&o.legacy, "legacy", false, "Send the ID of the volume also in the deprecated field "+
		"of replication requests, which older drivers read.")
	set.BoolVar(&o.force, "force", false, "Force PromoteVolume, DemoteVolume or ResyncVolume.")
}
