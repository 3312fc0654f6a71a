package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/supervisor"
)

// readyLimit is the default of --timeout.
const readyLimit = 3 * time.Minute

func newRun(f *flags) *cobra.Command {
	r := runFlags{flags: f}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Start a cluster and the operators in the foreground and show what happens",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&r.exitWhenReady, "exit-when-ready", false,
		"exit 0 once all drivers are ready, and 1 if they are not in time")
	cmd.Flags().DurationVar(&r.limit, "timeout", readyLimit, "how long --exit-when-ready waits")
	f.addCluster(cmd)
	return cmd
}

// runFlags are the flags of run, and the global flags.
type runFlags struct {
	*flags
	exitWhenReady bool
	limit         time.Duration
}

func (f runFlags) run(ctx context.Context, out io.Writer) error {
	p, err := f.places()
	if err != nil {
		return err
	}
	options, err := f.clusterOptions(p, out)
	if err != nil {
		return err
	}
	for _, o := range options.Operators {
		if err := (operator.Runner{Operator: o, Bin: p.bin}).Check(); err != nil {
			return err
		}
	}
	err = supervisor.Serve(p.dir, func(ready func() error) error {
		p.killLeftovers(out)
		c, stop, err := start(ctx, options)
		if err != nil {
			return stopped(ctx, out, err)
		}
		defer stop()
		if err := ready(); err != nil {
			return err
		}
		s := session{places: p, cluster: c, out: out, exitWhenReady: f.exitWhenReady, limit: f.limit}
		return stopped(ctx, out, s.run(ctx))
	})
	if err == nil && ctx.Err() != nil && f.exitWhenReady {
		return errStopped
	}
	return err
}

// stopped ignores errors after Ctrl-C.
func stopped(ctx context.Context, out io.Writer, err error) error {
	if ctx.Err() == nil {
		return err
	}
	fmt.Fprintln(out, "stopping everything")
	return nil
}
