// Package cluster runs a devcluster: control planes, OpenStack, the objects of OpenShift, and the
// files of operators. Package command and the integration tests run it.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
)

// Options describes a devcluster.
type Options struct {
	// Dir contains all state.
	Dir paths.Dir
	// Binaries is the folder that hack/k8s.sh filled.
	Binaries string
	// With NoCloud there is no OpenStack, and there are no credentials. With TLS OpenStack serves
	// HTTPS with a private CA.
	NoCloud, TLS bool
	// Settle is how long the simulator's answers wait for its operations, with real nodes.
	Settle time.Duration
	// Cloud is an OpenStack that runs already and that the caller closes. Without it, the cluster
	// runs one.
	Cloud testcloud.Cloud
	// Operators are the operators of the cluster. Without any, a cluster of real nodes contains
	// nothing of OpenShift.
	Operators []fixtures.Operator
	// Nodes are real nodes, in a standalone cluster. The operators are then pods.
	Nodes Nodes
	// CSIAddons installs CSI-Addons, and the operators add it to their drivers. It needs real nodes.
	CSIAddons bool
	// Sidecars says that the cluster holds the Leases of sidecars: on simulated nodes none runs.
	Sidecars bool
	// Guests is the number of guest clusters, each with its operators. 0 means standalone.
	Guests int
	// Progress receives messages for the user.
	Progress io.Writer
}

// Cluster is a running devcluster.
type Cluster struct {
	opts         Options
	management   *controlPlane
	environments []*Environment
	cloud        testcloud.Cloud // nil without a cloud
	openstack    *fixtures.Cloud // the data for manifests
	real         realNodes
	failed       chan error
	cancel       context.CancelFunc // stops the volumes
	stopped      chan struct{}
	start        time.Time
}

// Start starts everything. If it fails, it stops what it has started. The cluster then runs until
// Stop is called, even after the end of ctx.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{
		opts: o, failed: make(chan error, 1), stopped: make(chan struct{}), start: time.Now(),
	}
	for _, step := range c.steps() {
		c.say("%s", step.name)
		if err := step.run(ctx); err != nil {
			c.Stop()
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	c.say("the cluster is up")
	return c, nil
}

type step struct {
	name string
	run  func(context.Context) error
}

func (c *Cluster) steps() []step {
	emptying := step{"clearing " + string(c.opts.Dir), func(context.Context) error {
		return c.opts.Dir.Clear()
	}}
	if c.opts.Nodes.Count == 0 {
		return []step{
			emptying,
			{"starting OpenStack", c.startCloud},
			{"starting the Kubernetes control planes", c.startControlPlanes},
			{"creating the objects OpenShift would create", c.createFixtures},
			{"writing kubeconfigs and the operators' files", c.writeFiles},
			{"waiting for nodes", c.waitForNodes},
		}
	}
	return []step{
		emptying,
		{"creating the network of the nodes", c.createNetwork},
		{"starting the OpenStack simulator", c.startCloud},
		{"starting the Kubernetes control plane", c.startControlPlanes},
		{"starting the nodes", c.startNodes},
		{"installing the operators", c.installOperators},
		{"waiting for nodes, which import their images", c.waitForNodes},
	}
}

// Environments returns the places in which operators run, in the order of the guest clusters.
func (c *Cluster) Environments() []*Environment { return c.environments }

// Wait returns nil when ctx ends, and an error when the cluster fails before.
func (c *Cluster) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.failed:
		return err
	}
}

// fail keeps the first failure. Later failures are mostly its consequences.
func (c *Cluster) fail(err error) {
	select {
	case c.failed <- err:
	default:
	}
}

// Stop stops everything. Call it once.
func (c *Cluster) Stop() {
	close(c.stopped)
	if c.cancel != nil {
		c.cancel()
	}
	if err := c.real.stop(); err != nil {
		c.say("stopping the nodes: %v", err)
	}
	var ending sync.WaitGroup
	for _, p := range c.controlPlanes() {
		ending.Go(p.Stop)
	}
	ending.Wait()
	if c.cloud != nil && c.opts.Cloud == nil {
		// It closes listeners, which end with this process anyway.
		_ = c.cloud.Close()
	}
}

// controlPlanes returns all running control planes, those of guest clusters first.
func (c *Cluster) controlPlanes() []*controlPlane {
	var all []*controlPlane
	for _, s := range c.environments {
		if s.target != nil && s.target != c.management {
			all = append(all, s.target)
		}
	}
	if c.management != nil {
		all = append(all, c.management)
	}
	return all
}

func (c *Cluster) say(format string, args ...any) {
	fmt.Fprintf(c.opts.Progress, "%6.1fs %s\n", time.Since(c.start).Seconds(),
		fmt.Sprintf(format, args...))
}

// startControlPlanes starts the cluster in which the operators run, and then the guest clusters.
func (c *Cluster) startControlPlanes(ctx context.Context) error {
	var definitions []string
	if c.opts.Guests > 0 {
		folder := c.opts.Dir.Definitions()
		err := paths.WriteFile(filepath.Join(folder, "hostedcontrolplanes.yaml"),
			fixtures.HostedControlPlanes())
		if err != nil {
			return err
		}
		definitions = append(definitions, folder)
	}
	var err error
	if c.management, err = c.startControlPlane(ctx, c.opts.Dir, definitions...); err != nil {
		return err
	}
	go c.watch(c.management)
	return c.startEnvironments(ctx)
}

func (c *Cluster) watch(p *controlPlane) {
	select {
	case err := <-p.Failed():
		c.fail(err)
	case <-c.stopped:
	}
}

// Claim reserves a folder for the clusters of this process until the caller closes the result, at
// the latest until this process ends. It fails if another process has claimed the folder, or if the
// folder belongs to another program. It kills processes of the programs in the folders bins that an
// earlier cluster in dir left, and returns their number.
func Claim(dir paths.Dir, bins ...string) (claim io.Closer, killed int, err error) {
	if err := dir.Own(); err != nil {
		return nil, 0, err
	}
	file, err := os.OpenFile(dir.Lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("opening the lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("a devcluster runs in %s already: stop it, or choose another --dir", dir)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, process.KillLeftovers(string(dir), bins...), nil
}
