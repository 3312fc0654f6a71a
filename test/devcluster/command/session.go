package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/view"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	// checkInterval is how often readiness is judged when nothing changes, since
	// share types come and go unseen.
	checkInterval = 2 * time.Second
	// drawDelay gathers changes that come together.
	drawDelay = 200 * time.Millisecond
)

// session is operators at work on a running cluster.
type session struct {
	places        places
	cluster       *cluster.Cluster
	out           io.Writer
	exitWhenReady bool
	limit         time.Duration

	sources []*view.Source // in the order of the cluster's environments
	changed chan struct{}
	display view.Display
	start   time.Time
	isReady bool
}

var errStopped = errors.New("stopped before the drivers were ready")

// run ends when ctx ends, when something fails, or when the drivers are ready and
// nobody wants more.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.look(ctx); err != nil {
		return err
	}
	runners := s.runners()
	for _, r := range runners {
		fmt.Fprintf(s.out, "starting %s, which logs to %s\n", r.Name(), r.Dir.OperatorLog(r.Operator.Program))
	}
	if err := s.places.showAccess(s.out); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	s.start, s.display = time.Now(), view.NewDisplay(s.out)

	ended := make(chan error, len(runners)+1)
	var operators sync.WaitGroup
	for _, r := range runners {
		r.Progress = s.display
		operators.Go(func() { ended <- r.Run(ctx) })
	}
	go func() { ended <- s.cluster.Wait(ctx) }()
	err := s.watch(ctx, ended)
	// The operators go first, so that they do not complain about the rest.
	cancel()
	operators.Wait()
	return err
}

// runners are the operators of all environments.
func (s *session) runners() []operator.Runner {
	var all []operator.Runner
	for _, environment := range s.cluster.Environments() {
		for _, o := range environment.Operators {
			all = append(all, operator.Runner{
				Operator: o, Guest: environment.Guest, Bin: s.places.bin, Dir: environment.Dir, Env: environment.OperatorEnv(o),
			})
		}
	}
	return all
}

// look begins to watch all environments.
func (s *session) look(ctx context.Context) error {
	s.changed = make(chan struct{}, 1)
	notify := func() {
		select {
		case s.changed <- struct{}{}:
		default: // a change is announced already
		}
	}
	for _, environment := range s.cluster.Environments() {
		source := &view.Source{Drivers: drivers(environment), Notify: notify}
		if err := source.Start(ctx, environment.Config(), environment.ControlConfig()); err != nil {
			return err
		}
		s.sources = append(s.sources, source)
	}
	return nil
}

// drivers says what to look at.
func drivers(environment *cluster.Environment) []view.Driver {
	var all []view.Driver
	for _, o := range environment.Operators {
		driver := view.Driver{
			Title: o.Driver, Name: o.ClusterCSIDriver, Namespace: o.OperandNamespace,
			Classes: o.StorageClasses, PerShareType: o.ClassPerShareType,
		}
		if environment.Guest != "" {
			driver.Controller, driver.ControlPlaneNamespace = o.Controller, o.Namespace
		}
		all = append(all, driver)
	}
	return all
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
		case <-s.changed:
			if err := pause(ctx, drawDelay); err != nil {
				return err
			}
		}
	}
}

// show draws the present state and returns what is missing in it.
func (s *session) show(ctx context.Context) ([]string, error) {
	frame, missing, err := s.frame(s.shareTypes(ctx))
	if err != nil {
		return nil, err
	}
	s.display.Show(frame)
	if len(missing) == 0 && !s.isReady {
		s.isReady = true
		fmt.Fprintf(s.display, "ready after %.1fs\n", time.Since(s.start).Seconds())
	}
	return missing, nil
}

// frame shows everything if there is one environment, and else each in a line.
func (s *session) frame(shareTypes []string) (view.Frame, []string, error) {
	if len(s.sources) == 1 {
		now, err := s.sources[0].Snapshot()
		return now, now.Missing(shareTypes), err
	}
	var (
		overview view.Overview
		all      []string
	)
	for i, source := range s.sources {
		now, err := source.Snapshot()
		if err != nil {
			return nil, nil, err
		}
		hosted := view.Hosted{Guest: s.cluster.Environments()[i].Guest, Missing: now.Missing(shareTypes)}
		for _, text := range hosted.Missing {
			all = append(all, hosted.Guest+": "+text)
		}
		overview = append(overview, hosted)
	}
	return overview, all, nil
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
