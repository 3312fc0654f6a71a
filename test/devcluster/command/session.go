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

// session runs operators on a running cluster, and prints what changes.
type session struct {
	runFlags

	bin     string
	cluster *cluster.Cluster
	display *view.Display
	start   time.Time
	sources []*view.Source // in the order of the cluster's environments
	isReady bool
}

func newSession(f runFlags, p places, c *cluster.Cluster, out io.Writer) *session {
	return &session{
		runFlags: f, bin: p.bin, cluster: c, display: view.NewDisplay(out), start: time.Now(),
	}
}

// run returns when ctx ends, when an operator or the cluster fails, or when the drivers are ready
// and exitWhenReady is set.
func (s *session) run(ctx context.Context) error {
	for _, e := range s.cluster.Environments() {
		source, err := view.NewSource(e)
		if err != nil {
			return err
		}
		s.sources = append(s.sources, source)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	runners := s.runners()
	ended := make(chan error, len(runners)+1)
	var operators sync.WaitGroup
	for _, r := range runners {
		fmt.Fprintf(s.display, "starting %s, which logs to %s\n",
			r.Name(), r.Dir.OperatorLog(r.Operator.Program))
		operators.Go(func() { ended <- r.Run(ctx) })
	}
	go func() { ended <- s.cluster.Wait(ctx) }()
	err := s.watch(ctx, ended)
	// The operators stop before the cluster, so that they do not log errors about it.
	cancel()
	operators.Wait()
	return err
}

func (s *session) runners() []operator.Runner {
	var runners []operator.Runner
	for _, e := range s.cluster.Environments() {
		for _, o := range e.Operators {
			if !s.noOperators && !s.cluster.RunsOperators() {
				runners = append(runners, operator.Runner{
					Operator: o, Guest: e.Guest, Bin: s.bin, Dir: e.Dir, Env: e.OperatorEnv(o),
					Progress: s.display,
				})
			}
		}
	}
	return runners
}

// watch polls the drivers.
func (s *session) watch(ctx context.Context, ended <-chan error) error {
	timeout := time.After(s.timeout)
	tick := time.NewTicker(pollInterval * time.Duration(len(s.sources)))
	defer tick.Stop()
	for {
		missing := s.show(ctx)
		if len(missing) == 0 && s.exitWhenReady {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("stopped before the drivers were ready")
		case err := <-ended:
			if err != nil {
				return err
			}
		case <-timeout:
			if s.exitWhenReady {
				return fmt.Errorf("not ready within %s:\n  %s", s.timeout, strings.Join(missing, "\n  "))
			}
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

// poll returns a line for each object, or with several guest clusters one line for each of them.
func (s *session) poll(ctx context.Context) (lines, missing []string, err error) {
	shareTypes := s.shareTypes()
	for i, source := range s.sources {
		now, err := source.Read(ctx, shareTypes)
		if err != nil {
			return nil, nil, err
		}
		if len(s.sources) == 1 {
			return now.Lines, now.Missing, nil
		}
		line := "cluster " + s.cluster.Environments()[i].Guest
		if len(now.Missing) == 0 {
			lines = append(lines, line+" is ready")
			continue
		}
		line += " waits: " + strings.Join(strings.Fields(now.Missing[0]), " ") // in one line
		lines, missing = append(lines, line), append(missing, line)
	}
	return lines, missing, nil
}

// shareTypes returns the share types that the user of the credentials sees.
func (s *session) shareTypes() []string {
	var names []string
	for _, t := range s.cluster.Cloud().ShareTypes() {
		if !t.Private {
			names = append(names, t.Name)
		}
	}
	return names
}
