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
)

const (
	// pollInterval is multiplied by the number of clusters.
	pollInterval = 500 * time.Millisecond
	// pollTimeout limits one poll, because an API server may not answer.
	pollTimeout = 10 * time.Second
)

var errStopped = errors.New("stopped before the drivers were ready")

// session runs operators on a running cluster, and prints what changes.
type session struct {
	places        places
	cluster       *cluster.Cluster
	out           io.Writer
	exitWhenReady bool
	limit         time.Duration

	sources []*view.Source // in the order of the cluster's environments
	display *view.Display
	start   time.Time
	isReady bool
}

// run returns when ctx ends, when an operator or the cluster fails, or when the drivers are ready
// and exitWhenReady is set.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var runners []operator.Runner
	for _, environment := range s.cluster.Environments() {
		source, err := view.NewSource(drivers(environment), environment.Config(),
			environment.ControlConfig())
		if err != nil {
			return err
		}
		s.sources = append(s.sources, source)
		for _, o := range environment.Operators {
			r := operator.Runner{
				Operator: o, Guest: environment.Guest, Bin: s.places.bin, Dir: environment.Dir,
				Env: environment.OperatorEnv(o),
			}
			fmt.Fprintf(s.out, "starting %s, which logs to %s\n", r.Name(), r.Dir.OperatorLog(o.Program))
			runners = append(runners, r)
		}
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
	// The operators stop before the cluster, so that they do not log errors about it.
	cancel()
	operators.Wait()
	return err
}

// drivers returns the drivers to poll in an environment.
func drivers(environment *cluster.Environment) []view.Driver {
	var all []view.Driver
	for _, o := range environment.Operators {
		driver := view.Driver{
			Title: o.Driver, Name: o.ClusterCSIDriver, Namespace: o.OperandNamespace,
			Classes: o.StorageClasses, PerShareType: o.ClassPerShareType,
		}
		if environment.Guest != "" {
			driver.Controller, driver.ControlPlaneNamespace = o.Workloads[0], o.Namespace
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
	tick := time.NewTicker(pollInterval * time.Duration(len(s.sources)))
	defer tick.Stop()
	for {
		missing := s.show(ctx)
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
		case <-tick.C:
		}
	}
}

// show prints what has changed, and returns what is missing until all drivers are ready.
func (s *session) show(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	lines, missing, err := s.poll(ctx)
	if err != nil {
		return []string{err.Error()} // the API server may be stopped
	}
	s.display.Show(lines)
	if len(missing) == 0 && !s.isReady {
		s.isReady = true
		fmt.Fprintf(s.display, "ready after %.1fs\n", time.Since(s.start).Seconds())
	}
	return missing
}

// poll returns a line for each object if there is one environment, and else a line for each guest
// cluster.
func (s *session) poll(ctx context.Context) (lines, missing []string, err error) {
	shareTypes, err := s.shareTypes(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i, source := range s.sources {
		now, err := source.Snapshot(ctx)
		if err != nil {
			return nil, nil, err
		}
		waits := now.Missing(shareTypes)
		if len(s.sources) == 1 {
			return now.Lines(), waits, nil
		}
		guest := s.cluster.Environments()[i].Guest
		lines = append(lines, "cluster "+guest+" "+summary(waits))
		for _, text := range waits {
			missing = append(missing, guest+": "+text)
		}
	}
	return lines, missing, nil
}

// summary names the first thing that is missing.
func summary(missing []string) string {
	if len(missing) == 0 {
		return "is ready"
	}
	text := "waits: " + strings.Join(strings.Fields(missing[0]), " ")
	if more := len(missing) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// shareTypes returns the share types that the user of the credentials sees.
func (s *session) shareTypes(ctx context.Context) ([]string, error) {
	if s.cluster.Cloud() == nil {
		return nil, nil
	}
	types, err := s.cluster.Cloud().ShareTypes(ctx)
	var names []string
	for _, t := range types {
		if !t.Private {
			names = append(names, t.Name)
		}
	}
	return names, err
}
