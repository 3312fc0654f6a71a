package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/kubeletvolumes"
)

const (
	// startsAtOnce is the number of control planes that start in parallel. More would exceed their
	// time limits.
	startsAtOnce = 3
	nodesTimeout = 3 * time.Minute
	// importTimeout is the time for real nodes, which import all images first.
	importTimeout = 10 * time.Minute
)

// startEnvironments starts the guest clusters.
func (c *Cluster) startEnvironments(ctx context.Context) error {
	if err := c.planEnvironments(); err != nil {
		return err
	}
	return c.everyEnvironment(func(s *Environment) error {
		if !s.isHosted() {
			s.target = c.management
			return nil
		}
		var err error
		if s.target, err = c.startControlPlane(ctx, s.Dir); err != nil {
			return fmt.Errorf("starting %s: %w", s.Guest, err)
		}
		go c.watch(s.target)
		return nil
	})
}

// isPlain returns whether the cluster is not OpenShift.
func (o Options) isPlain() bool {
	return o.Nodes.Count > 0 || len(o.Operators) > 0 && o.Operators[0].OnKubernetes
}

// planEnvironments assigns each operator to an environment.
func (c *Cluster) planEnvironments() error {
	if c.opts.Guests == 0 {
		c.environments = []*Environment{{
			Dir: c.opts.Dir, Operators: slices.Clone(c.opts.Operators), control: c.management,
			CSIAddons: c.opts.CSIAddons,
		}}
		if c.opts.isPlain() {
			c.environments[0].kubectl = filepath.Join(c.opts.Binaries, "kubectl")
			c.environments[0].simulated = !c.RunsOperators()
		}
		return nil
	}
	for i := range c.opts.Guests {
		guest := "guest-" + strconv.Itoa(i+1)
		environment := &Environment{Guest: guest, Dir: c.opts.Dir.Guest(guest), control: c.management}
		for _, o := range c.opts.Operators {
			hosted, err := o.Hosted(guest)
			if err != nil {
				return err
			}
			environment.Operators = append(environment.Operators, hosted)
		}
		c.environments = append(c.environments, environment)
	}
	return nil
}

// assignAddresses runs after the start of all control planes, which might take a free one.
func (c *Cluster) assignAddresses(ctx context.Context) error {
	free, err := freeAddresses(ctx, len(c.environments)*len(c.opts.Operators))
	if err != nil {
		return err
	}
	for _, s := range c.environments {
		for i := range s.Operators {
			s.Operators[i].Address, free = free[0], free[1:]
		}
	}
	return nil
}

// everyEnvironment calls work for all environments, some in parallel.
func (c *Cluster) everyEnvironment(work func(*Environment) error) error {
	var (
		all   sync.WaitGroup
		slots = make(chan struct{}, startsAtOnce)
		errs  = make([]error, len(c.environments))
	)
	for i, environment := range c.environments {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = work(environment)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// freeAddresses returns addresses on loopback. It closes the listeners only after it has found all,
// so that no address is returned twice.
func freeAddresses(ctx context.Context, count int) ([]string, error) {
	var taken []net.Listener
	defer func() {
		for _, l := range taken {
			// A listener without connections can be closed at any time.
			_ = l.Close()
		}
	}()
	var free []string
	for range count {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		taken, free = append(taken, l), append(free, l.Addr().String())
	}
	return free, nil
}

func (c *Cluster) createFixtures(ctx context.Context) error {
	if err := c.assignAddresses(ctx); err != nil {
		return err
	}
	if c.opts.Guests > 0 {
		if err := fixtures.Management().Populate(ctx, c.management.writer); err != nil {
			return err
		}
	}
	return c.everyEnvironment(func(s *Environment) error { return s.populate(ctx, c.openstack) })
}

func (c *Cluster) installOperators(ctx context.Context) error {
	if len(c.opts.Operators) == 0 {
		return nil
	}
	return c.createFixtures(ctx)
}

// writeFiles writes the files of the operators' pods.
func (c *Cluster) writeFiles(ctx context.Context) error {
	if err := c.everyEnvironment(func(s *Environment) error { return s.writeFiles(ctx) }); err != nil {
		return err
	}
	var volumes []kubeletvolumes.Volume
	for _, s := range c.environments {
		volumes = append(volumes, s.volumes()...)
	}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if c.opts.Guests > 0 && c.cloud != nil {
		go c.playHyperShift(ctx)
	}
	if c.opts.Sidecars {
		go c.playSidecars(ctx)
	}
	return kubeletvolumes.Run(ctx, c.management.Client(), volumes, c.fail)
}

// waitForNodes checks that nodes and the controller manager work in all clusters.
func (c *Cluster) waitForNodes(ctx context.Context) error {
	limit := nodesTimeout
	if c.RunsOperators() {
		limit = importTimeout
	}
	var missing string
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, limit, true,
		func(ctx context.Context) (bool, error) {
			select {
			case err := <-c.failed:
				return false, err
			default:
			}
			var err error
			missing, err = c.missing(ctx)
			return err == nil && missing == "", err
		})
	if err != nil && missing != "" {
		return fmt.Errorf("%s: %w", missing, err)
	}
	if err != nil {
		return err
	}
	return c.labelNodes(ctx)
}

// missing names a node or a ServiceAccount for which the cluster must wait.
func (c *Cluster) missing(ctx context.Context) (string, error) {
	for _, p := range c.controlPlanes() {
		nodes, err := p.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", fmt.Errorf("listing nodes: %w", err)
		}
		if len(nodes.Items) < len(c.real.nodes) {
			return "a node is not registered", nil
		}
		for _, node := range nodes.Items {
			if !isReady(node) {
				return "node " + node.Name + " is not ready", nil
			}
		}
	}
	for _, s := range c.environments {
		for _, o := range s.Operators {
			accounts := s.target.Client().CoreV1().ServiceAccounts(o.OperandNamespace)
			_, err := accounts.Get(ctx, "default", metav1.GetOptions{})
			if err != nil {
				return "no ServiceAccount in " + o.OperandNamespace, client.IgnoreNotFound(err)
			}
		}
	}
	return "", nil
}

func isReady(node corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
