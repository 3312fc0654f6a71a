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
	*flags

	bin     string
	cluster *cluster.Cluster
	screen  screen
	start   time.Time
	sources []*view.Source // in the order of the cluster's environments
	isReady bool
}

// screen shows what happens to the user. It is a *view.Display or a *view.Live.
type screen interface {
	io.Writer
	Show(clusters []view.Cluster)
}

func newSession(f *flags, p places, c *cluster.Cluster, s screen) *session {
	return &session{flags: f, bin: p.bin, cluster: c, screen: s, start: time.Now()}
}

// run returns when ctx ends, when the user quits the view, when an operator or the cluster fails,
// or when the drivers are ready and exitWhenReady is set.
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
	quit := make(chan error, 1)
	var operators sync.WaitGroup
	if live, isLive := s.screen.(*view.Live); isLive {
		operators.Go(func() {
			quit <- live.Run(ctx)
			cancel() // it ends a request that waits for an API server
		})
	}
	for _, r := range runners {
		fmt.Fprintf(s.screen, "starting %s, which logs to %s\n",
			r.Name(), r.Dir.OperatorLog(r.Operator.Program))
		operators.Go(func() { ended <- r.Run(ctx) })
	}
	go func() { ended <- s.cluster.Wait(ctx) }()
	err := s.watch(ctx, ended, quit)
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
					Operator: o, Guest: e.Guest, Bin: s.bin, Dir: e.Dir, Env: o.Env(),
					Progress: s.screen,
				})
			}
		}
	}
	return runners
}

func (s *session) watch(ctx context.Context, ended, quit <-chan error) error {
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
			select {
			case err := <-quit:
				return err
			default:
				return errors.New("stopped before the drivers were ready")
			}
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

// show shows what has changed, and returns what is missing until all drivers are ready.
func (s *session) show(ctx context.Context) []string {
	clusters := s.poll(ctx)
	s.screen.Show(clusters)
	missing := view.Missing(clusters)
	if len(missing) == 0 && !s.isReady {
		s.isReady = true
		fmt.Fprintf(s.screen, "ready after %.1fs\n", time.Since(s.start).Seconds())
	}
	return missing
}

// poll reads each cluster. An API server may be stopped.
func (s *session) poll(ctx context.Context) []view.Cluster {
	shareTypes := s.shareTypes()
	var clusters []view.Cluster
	for i, e := range s.cluster.Environments() {
		c := view.Cluster{Guest: e.Guest}
		c.Err = s.read(ctx, s.sources[i], shareTypes, &c)
		clusters = append(clusters, c)
	}
	return clusters
}

func (s *session) read(
	ctx context.Context, from *view.Source, shareTypes []string, c *view.Cluster,
) (err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if c.State, err = from.Read(ctx, shareTypes); err != nil {
		return err
	}
	if _, isLive := s.screen.(*view.Live); isLive {
		c.Events, err = from.Events(ctx)
	}
	return err
}

func (s *session) shareTypes() []string {
	var names []string
	for _, t := range s.cluster.Cloud().ShareTypes() {
		if !t.Private {
			names = append(names, t.Name)
		}
	}
	return names
}
