// Package cluster puts a devcluster together: control plane, OpenStack, seeded
// objects, and the files an operator needs. Package command runs it, in the
// foreground or under the supervisor.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/openstack-csi/csi-operator/test/devcluster/build"
	"github.com/openstack-csi/csi-operator/test/devcluster/cloud"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/layout"
	"github.com/openstack-csi/csi-operator/test/devcluster/seed"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Options describes a devcluster.
type Options struct {
	// Dir receives all state.
	Dir layout.Dir
	// Binaries is the cache that package build filled.
	Binaries string
	// Cloud is a kind of package cloud. TLS makes it serve HTTPS with a private CA.
	Cloud string
	TLS   bool
	// Operators that will run, one at least.
	Operators []seed.Operator
	// Progress receives lines for people.
	Progress io.Writer
}

// Cluster is a running devcluster.
type Cluster struct {
	opts   Options
	plane  *controlplane.ControlPlane
	cloud  *simulator.Simulator // nil without a cloud
	client kubernetes.Interface
	writer seed.Writer
	values seed.Values
	failed chan error
	cancel context.CancelFunc
	start  time.Time
}

// Start starts everything. When it fails, what was started is stopped again. The
// cluster then runs until Stop is called, whatever happens to ctx.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{opts: o, failed: make(chan error, 1), start: time.Now()}
	c.values.InfrastructureName, c.values.Operators = seed.InfrastructureName, o.Operators
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"clearing " + string(o.Dir), c.clear},
		{"starting the OpenStack simulator", c.startCloud},
		{"starting the Kubernetes control plane", c.startPlane},
		{"creating the objects OpenShift would create", c.seed},
		{"writing kubeconfigs and the operators' files", c.writeFiles},
		{"waiting for nodes", c.waitForNodes},
	}
	for _, step := range steps {
		c.say("%s", step.name)
		if err := step.run(ctx); err != nil {
			c.Stop()
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	c.say("the cluster is up")
	return c, nil
}

// Config is the client configuration of a cluster administrator.
func (c *Cluster) Config() *rest.Config { return c.plane.Config() }

// Cloud drives the simulator. It is nil without a cloud.
func (c *Cluster) Cloud() *simulator.Client {
	if c.cloud == nil {
		return nil
	}
	return c.cloud.Client()
}

// Wait returns nil when ctx ends, and an error when the cluster fails before.
func (c *Cluster) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.plane.Failed():
		return err
	case err := <-c.failed:
		return err
	}
}

// Stop stops everything.
func (c *Cluster) Stop() {
	if c.cancel != nil {
		c.cancel()
	}
	if c.plane != nil {
		c.plane.Stop()
	}
	if c.cloud != nil {
		// It closes listeners that are gone with this process anyway.
		_ = c.cloud.Close()
	}
	// Whoever reads this file wants a simulator that is there.
	_ = os.Remove(c.opts.Dir.CloudControl())
}

func (c *Cluster) say(format string, args ...any) {
	fmt.Fprintf(c.opts.Progress, "%6.1fs %s\n", time.Since(c.start).Seconds(), fmt.Sprintf(format, args...))
}

// clear removes what an earlier cluster, of other operators perhaps, left in the
// folder, but nothing of which it does not know that it is its own.
func (c *Cluster) clear(context.Context) error {
	operators, err := seed.AllOperators()
	if err != nil {
		return err
	}
	d := c.opts.Dir
	paths := []string{
		d.Logs(), d.ControlPlanes(), d.OpenStack(), d.OpenStackCA(), d.AuditLog(), d.CloudControl(),
		d.FirstOperatorEnv(), d.AdminKubeconfig(),
	}
	for _, o := range operators {
		paths = append(paths, d.OperatorEnv(o.Name), filepath.Dir(d.OperatorConfig(o.Name)), d.Kubeconfig(o.Name),
			d.OperatorLog(o.Program))
	}
	var errs []error
	for _, path := range paths {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

func (c *Cluster) startCloud(ctx context.Context) error {
	switch c.opts.Cloud {
	case cloud.None:
		return nil
	case cloud.Simulator:
	default:
		return fmt.Errorf("cloud %q is not known, only %s and %s", c.opts.Cloud, cloud.Simulator, cloud.None)
	}
	var err error
	if c.cloud, err = cloud.Start(context.WithoutCancel(ctx), c.opts.TLS); err != nil {
		return err
	}
	if err := cloud.Save(c.opts.Dir.CloudControl(), c.cloud.Info()); err != nil {
		return err
	}
	c.values.Cloud, err = cloud.Describe(ctx, c.cloud.Client())
	return err
}

func (c *Cluster) startPlane(ctx context.Context) error {
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Binaries: c.opts.Binaries,
		Dir:      filepath.Join(c.opts.Dir.ControlPlanes(), "main"),
		Logs:     c.opts.Dir.Logs(),
		AuditLog: c.opts.Dir.AuditLog(),
		CRDs:     []string{build.CRDs(c.opts.Binaries)},
	})
	if err != nil {
		return err
	}
	c.plane = plane
	if c.client, err = kubernetes.NewForConfig(plane.Config()); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}
