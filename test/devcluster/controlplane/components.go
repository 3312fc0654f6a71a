package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// kwok renews the lease of a node after a quarter of its duration. A node without a renewal for the
// grace period is not ready. Both are longer than the defaults, for a busy machine.
const (
	nodeLease = "160"
	nodeGrace = 5 * time.Minute
)

// controllers are those of kube-controller-manager with kwok, without some that would only cost
// time: pods have no network, so nothing reads endpoints.
const controllers = "*,-endpoints-controller,-endpointslice-controller," +
	"-endpointslice-mirroring-controller"

// component is a client of the API server with its own process and user.
type component struct {
	name   string
	user   string
	groups []string
	args   []string
	// restarts is how often it starts again after it has ended unexpectedly.
	restarts int
}

func (c *ControlPlane) controllers() string {
	if c.opts.Address != "" {
		return "*"
	}
	return controllers
}

func (c *ControlPlane) components() []component {
	leader := "--leader-elect=false"
	noPort := "--secure-port=0"
	all := []component{
		{
			name: "kube-controller-manager",
			user: "system:kube-controller-manager",
			args: []string{
				leader, noPort, "--profiling=false", "--controllers=" + c.controllers(),
				"--use-service-account-credentials=true",
				"--node-monitor-grace-period=" + cmp.Or(c.opts.NodeGrace, nodeGrace).String(),
				"--root-ca-file=" + c.opts.servingCA(),
				"--service-account-private-key-file=" + c.opts.serviceAccountKey(),
			},
		},
		{
			name: "kube-scheduler",
			user: "system:kube-scheduler",
			args: []string{leader, noPort, "--profiling=false"},
		},
	}
	if c.opts.Address != "" {
		return all
	}
	return append(all, component{
		// kwok acts for all kubelets, so it needs the permissions of all nodes.
		name:   "kwok",
		user:   "kwok",
		groups: []string{"system:masters"},
		args: []string{
			"--config=" + c.opts.kwokConfig(), "--manage-all-nodes=true",
			"--cidr=10.128.0.0/14", "--node-ip=10.0.0.10", "--v=warn",
			"--node-lease-duration-seconds=" + nodeLease,
		},
		// It seldom crashes while it starts: the first events of nodes and of pods fill a map of
		// the module easycel 0.6 at the same time.
		restarts: 3,
	})
}

func (c *ControlPlane) startComponents(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startWatched(ctx)
}

// startWatched starts the components, and reports those that end. The caller holds the lock.
func (c *ControlPlane) startWatched(ctx context.Context) error {
	var watch context.Context
	watch, c.expected = context.WithCancel(context.WithoutCancel(ctx))
	if err := c.writeKwokConfig(); err != nil {
		return err
	}
	for _, component := range c.components() {
		if err := c.startComponent(watch, component); err != nil {
			return err
		}
	}
	go c.watchAPIServer(watch)
	return nil
}

func (c *ControlPlane) stopComponents() {
	if c.expected != nil {
		c.expected()
	}
	var ending sync.WaitGroup
	for _, p := range c.children {
		ending.Go(func() { p.Stop(stopTimeout) })
	}
	ending.Wait()
	c.children = nil
}

func (c *ControlPlane) startComponent(watch context.Context, what component) error {
	kubeconfig, err := c.writeKubeconfig(what)
	if err != nil {
		return err
	}
	p, err := process.Start(process.Options{
		Name: what.name,
		Path: c.opts.binary(what.name),
		Args: append([]string{"--kubeconfig=" + kubeconfig}, what.args...),
		Log:  c.opts.log(what.name),
	})
	if err != nil {
		return err
	}
	c.children = append(c.children, p)
	go func() {
		<-p.Done()
		c.mu.Lock()
		defer c.mu.Unlock()
		if watch.Err() != nil {
			return
		}
		if err := c.restart(watch, what, p); err != nil {
			c.report(err)
		}
	}()
	return nil
}

// restart starts a component again whose process p has ended unexpectedly. It returns an error if
// the component has ended too often.
func (c *ControlPlane) restart(watch context.Context, what component, p *process.Process) error {
	if what.restarts == 0 {
		return p.ExitError()
	}
	what.restarts--
	if err := c.removeNodeLeases(watch); err != nil {
		return errors.Join(p.ExitError(), err)
	}
	return c.startComponent(watch, what)
}

// removeNodeLeases removes the leases of nodes. Otherwise a new kwok would wait until they expire.
func (c *ControlPlane) removeNodeLeases(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("removing the leases of nodes: %w", err)
	}
	return nil
}

func (c *ControlPlane) writeKubeconfig(what component) (string, error) {
	content, err := c.Issue(what.user, what.groups...)
	if err != nil {
		return "", err
	}
	path := c.opts.kubeconfig(what.name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %q: %w", what.user, err)
	}
	return path, nil
}

// writeKwokConfig writes all stages into one file.
func (c *ControlPlane) writeKwokConfig() error {
	files, err := filepath.Glob(filepath.Join(c.opts.Stages, "*.yaml"))
	if err != nil {
		return fmt.Errorf("listing the stages of kwok: %w", err)
	}
	var stages [][]byte
	for _, file := range files {
		stage, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a stage of kwok: %w", err)
		}
		stages = append(stages, stage)
	}
	err = os.WriteFile(c.opts.kwokConfig(), bytes.Join(stages, []byte("\n---\n")), 0o600)
	if err != nil {
		return fmt.Errorf("writing the kwok configuration: %w", err)
	}
	return nil
}
