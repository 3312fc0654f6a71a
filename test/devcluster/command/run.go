package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/view"
)

func newRun(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a cluster and the operators until interrupted, and show what happens",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			if cmd.Context().Err() != nil && !f.exitWhenReady {
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&f.noOperators, "no-operators", false,
		"do not start the operators, so that you can, for example with a debugger")
	cmd.Flags().BoolVar(&f.exitWhenReady, "exit-when-ready", false,
		"exit 0 once all drivers are ready, and 1 if they are not in time")
	cmd.Flags().BoolVar(&f.check, "check", false,
		"check the flags, and the packages and permissions that real nodes need, and exit")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 3*time.Minute, "how long --exit-when-ready waits")
	f.addCluster(cmd)
	return cmd
}

func (f *flags) run(ctx context.Context, in io.Reader, terminal io.Writer) error {
	p, err := f.places()
	if err != nil {
		return err
	}
	options, err := f.clusterOptions(p)
	if err == nil && options.Nodes.Count > 0 && f.noOperators {
		err = errors.New("--no-operators needs simulated nodes: operators are pods on real nodes")
	}
	if err != nil || f.check {
		return err
	}
	out := f.screen(p, options.Operators, in, terminal)
	options.Progress = out
	for _, o := range options.Operators {
		err := (operator.Runner{Operator: o, Bin: p.bin}).Check()
		if err != nil && !f.noOperators && options.Nodes.Count == 0 {
			return err
		}
	}
	claim, killed, err := cluster.Claim(p.dir, p.binaries, p.bin)
	if err != nil {
		return err
	}
	defer claim.Close()
	if killed > 0 {
		fmt.Fprintf(out, "killed %d processes that an earlier devcluster left\n", killed)
	}
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return err
	}
	defer c.Stop()
	stop, err := (&running{cloud: c.Cloud(), cluster: c}).serve(ctx, p.dir.Control())
	if err != nil {
		return err
	}
	defer stop()
	showAccess(out, p.dir, c.Environments())
	err = newSession(f, p, c, out).run(ctx)
	fmt.Fprintln(out, "stopping everything")
	return err
}

// screen returns a view if a user can see it, and lines otherwise.
func (f *flags) screen(
	p places, operators []fixtures.Operator, in io.Reader, out io.Writer,
) screen {
	if f.exitWhenReady || !isTerminal(in) || !isTerminal(out) {
		return view.NewDisplay(out)
	}
	about := view.About{
		Flavour: f.flavour, Operators: operators, Dir: paths.Dir(relative(string(p.dir))),
		Command: os.Args[0],
	}
	if f.dir != "" {
		about.Command += " --dir=" + string(about.Dir)
	}
	klog.SetLogger(logr.Discard()) // client-go would write onto the view that a watch has ended
	return view.NewLive(about, in, out)
}

// relative returns a path below the working directory as a relative one.
func relative(path string) string {
	directory, err := os.Getwd()
	if err != nil {
		return path
	}
	short, err := filepath.Rel(directory, path)
	if err != nil || !filepath.IsLocal(short) {
		return path
	}
	return short
}

func isTerminal(stream any) bool {
	file, isFile := stream.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}

func showAccess(out io.Writer, dir paths.Dir, environments []*cluster.Environment) {
	fmt.Fprintf(out, "export KUBECONFIG=%s\n", dir.AdminKubeconfig())
	for _, e := range environments {
		if e.Guest != "" {
			fmt.Fprintf(out, "export KUBECONFIG=%s  # %s\n", e.Dir.AdminKubeconfig(), e.Guest)
		}
	}
	fmt.Fprintln(out)
}
