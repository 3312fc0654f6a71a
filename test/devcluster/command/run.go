package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/supervisor"
	"github.com/openstack-csi/csi-operator/test/devcluster/view"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	// readyLimit is how long --exit-when-ready waits unless told otherwise.
	readyLimit = 3 * time.Minute
	// checkInterval is how often readiness is judged when nothing changes, since
	// share types come and go unseen.
	checkInterval = 2 * time.Second
	// drawDelay gathers changes that come together.
	drawDelay = 200 * time.Millisecond
)

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

// runFlags are those of run alone, and the others.
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
	var runners []operator.Runner
	for _, o := range options.Operators {
		runner := operator.Runner{Operator: o, Bin: p.bin, Dir: p.dir}
		if err := runner.Check(); err != nil {
			return err
		}
		runners = append(runners, runner)
	}
	if err := p.builder(out).Ensure(ctx); err != nil {
		return err
	}
	err = supervisor.Serve(p.dir, func(ready func() error) error {
		p.killLeftovers(out)
		c, err := cluster.Start(ctx, options)
		if err != nil {
			return stopped(ctx, out, err)
		}
		defer c.Stop()
		if err := ready(); err != nil {
			return err
		}
		s := session{cluster: c, runners: runners, out: out, exitWhenReady: f.exitWhenReady, limit: f.limit}
		return stopped(ctx, out, s.run(ctx))
	})
	if err == nil && ctx.Err() != nil && f.exitWhenReady {
		return errStopped
	}
	return err
}

// stopped makes Ctrl-C a success: the user wanted it.
func stopped(ctx context.Context, out io.Writer, err error) error {
	if ctx.Err() == nil {
		return err
	}
	fmt.Fprintln(out, "stopping everything")
	return nil
}

// session is operators at work on a running cluster.
type session struct {
	cluster       *cluster.Cluster
	runners       []operator.Runner
	out           io.Writer
	exitWhenReady bool
	limit         time.Duration

	source  view.Source
	display view.Display
	start   time.Time
	isReady bool
}

var errStopped = errors.New("stopped before the drivers were ready")

// run ends when ctx ends, when something fails, or when the drivers are ready and
// nobody wants more.
func (s *session) run(ctx context.Context) error {
	s.source = view.Source{Drivers: s.drivers()}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.source.Start(ctx, s.cluster.Config()); err != nil {
		return err
	}
	for _, r := range s.runners {
		fmt.Fprintf(s.out, "starting %s, which logs to %s\n", r.Operator.Program, r.Dir.OperatorLog(r.Operator.Program))
	}
	fmt.Fprintf(s.out, "export KUBECONFIG=%s\n\n", s.runners[0].Dir.AdminKubeconfig())
	s.start, s.display = time.Now(), view.NewDisplay(s.out)

	ended := make(chan error, len(s.runners)+1)
	var operators sync.WaitGroup
	for _, r := range s.runners {
		r.Env, r.Progress = s.cluster.OperatorEnv(r.Operator), s.display
		operators.Go(func() { ended <- r.Run(ctx) })
	}
	go func() { ended <- s.cluster.Wait(ctx) }()
	err := s.watch(ctx, ended)
	// The operators go first, so that they do not complain about the rest.
	cancel()
	operators.Wait()
	return err
}

// drivers says what to look at.
func (s *session) drivers() []view.Driver {
	var drivers []view.Driver
	for _, r := range s.runners {
		o := r.Operator
		drivers = append(drivers, view.Driver{
			Title: o.Driver, Name: o.ClusterCSIDriver, Namespace: o.OperandNamespace,
			Classes: o.StorageClasses, PerShareType: o.ClassPerShareType,
		})
	}
	return drivers
}

func (s *session) watch(ctx context.Context, ended <-chan error) error {
	var limit <-chan time.Time
	if s.exitWhenReady {
		timer := time.NewTimer(s.limit)
		defer timer.Stop()
		limit = timer.C
	}
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	for {
		missing, err := s.show(ctx)
		if err != nil {
			return err
		}
		if len(missing) == 0 && s.exitWhenReady {
			return nil
		}
		select {
		case <-ctx.Done():
			return errStopped
		case err := <-ended:
			return err
		case <-limit:
			return fmt.Errorf("not ready within %s:\n  %s", s.limit, strings.Join(missing, "\n  "))
		case <-check.C:
		case <-s.source.Changed():
			if err := pause(ctx, drawDelay); err != nil {
				return err
			}
		}
	}
}

// show draws the present state and returns what is missing in it.
func (s *session) show(ctx context.Context) ([]string, error) {
	now, err := s.source.Snapshot()
	if err != nil {
		return nil, err
	}
	s.display.Show(now)
	missing := now.Missing(s.shareTypes(ctx))
	if len(missing) == 0 && !s.isReady {
		s.isReady = true
		fmt.Fprintf(s.display, "ready after %.1fs\n", time.Since(s.start).Seconds())
	}
	return missing, nil
}

// shareTypes asks the simulator's control interface, which no outage affects.
func (s *session) shareTypes(ctx context.Context) []string {
	client := s.cluster.Cloud()
	if client == nil {
		return nil
	}
	found, err := client.ShareTypes(ctx)
	if err != nil {
		return nil
	}
	return visible(found)
}

func visible(types []simulator.ShareType) []string {
	var names []string
	for _, t := range types {
		if !t.Private {
			names = append(names, t.Name)
		}
	}
	return names
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errStopped
	case <-time.After(d):
		return nil
	}
}
