// Package cluster runs a devcluster with real nodes for the tests in test/e2e, which call it. The
// operators and their drivers are pods.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	devcluster "github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

// Options describes a cluster.
type Options struct {
	// Name is the name of the folder of the cluster. Test programs that may run at the same time need
	// different names.
	Name string
	// Drivers are the drivers whose operators run, such as manila and cinder. Without any, the cluster
	// contains nothing of OpenShift.
	Drivers []string
	// Nodes is the number of real nodes. Zones are their availability zones, in their order; nova
	// for the nodes without one.
	Nodes int
	Zones []string
	// NodeGrace is the time until a node without power is not ready, instead of five minutes.
	NodeGrace time.Duration
	// With TLS, OpenStack serves HTTPS with a private CA.
	TLS bool
	// Settle is how long OpenStack's answers wait for its operations.
	Settle time.Duration
	// CSIAddons installs CSI-Addons, which the operators add to their drivers.
	CSIAddons bool
	// Progress receives messages for the user.
	Progress io.Writer
}

// Cluster is a running devcluster. One process may run one Cluster at a time.
type Cluster struct {
	*devcluster.Cluster

	// Dir contains the files of the cluster: kubeconfigs, logs, and the data of the cloud. They stay
	// until the next cluster of this name starts.
	Dir paths.Dir
	// Binaries is the folder of the programs of Kubernetes, such as kubectl.
	Binaries string
	// Operators are the operators in the cluster.
	Operators []fixtures.Operator
	// Config is the configuration of an administrator, Client a client with it.
	Config *rest.Config
	Client kubernetes.Interface

	claim   io.Closer
	signals chan os.Signal
	ending  sync.Once
}

// Start starts a cluster and waits until its drivers are ready. The variables BIN_DIR, K8S_BIN_DIR
// and NODE_BIN_DIR name the folders of the programs, as in the Makefile; BIN_DIR is in the source
// tree. If a signal such as Ctrl-C ends this process, the cluster stops before. An error names what
// is missing.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	log.SetLogger(logr.Discard()) // envtest's messages repeat our errors
	c := &Cluster{signals: make(chan os.Signal, 1)}
	options, err := c.plan(o)
	if err != nil {
		return nil, err
	}
	claim, killed, err := devcluster.Claim(c.Dir, options.Binaries)
	if err != nil {
		return nil, err
	}
	c.claim = claim
	if killed > 0 {
		fmt.Fprintf(o.Progress, "killed %d processes that an earlier cluster left\n", killed)
	}
	starting, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if c.Cluster, err = devcluster.Start(starting, options); err != nil {
		err = errors.Join(err, claim.Close())
	} else if err = c.connect(starting, o); err != nil {
		c.Stop()
	}
	if starting.Err() != nil && ctx.Err() == nil { // a signal arrived; the next test would start
		endProcess()
	}
	if err != nil {
		return nil, err
	}
	signal.Notify(c.signals, syscall.SIGINT, syscall.SIGTERM)
	go c.stopOnSignal()
	return c, nil
}

// plan finds everything that the cluster needs.
func (c *Cluster) plan(o Options) (devcluster.Options, error) {
	folders := devcluster.Folders{}
	for path, value := range map[*string]string{
		&c.Binaries:       os.Getenv("K8S_BIN_DIR"),
		&folders.Programs: os.Getenv("BIN_DIR"),
		&folders.Nodes:    os.Getenv("NODE_BIN_DIR"),
	} {
		if value == "" {
			return devcluster.Options{},
				errors.New("set BIN_DIR, K8S_BIN_DIR and NODE_BIN_DIR, as the Makefile does")
		}
		var err error
		if *path, err = filepath.Abs(value); err != nil {
			return devcluster.Options{}, fmt.Errorf("resolving folder %q: %w", value, err)
		}
	}
	folders.Source = filepath.Dir(folders.Programs)
	// `make run` uses the parent folder.
	parent := paths.Dir(filepath.Join(folders.Source, ".devcluster"))
	c.Dir = paths.Dir(filepath.Join(string(parent), o.Name))
	err := parent.Own()
	if err != nil {
		return devcluster.Options{}, err
	}
	if c.Operators, err = fixtures.KubernetesOperators(o.Drivers); err != nil {
		return devcluster.Options{}, err
	}
	nodes, err := devcluster.RealNodes(cmp.Or(o.Nodes, 1), folders)
	nodes.Zones, nodes.Grace = o.Zones, o.NodeGrace
	return devcluster.Options{
		Dir: c.Dir, Binaries: c.Binaries, TLS: o.TLS, Operators: c.Operators, Nodes: nodes,
		CSIAddons: o.CSIAddons, Settle: o.Settle, Progress: o.Progress,
	}, err
}

// connect creates the client, and waits until the drivers are ready.
func (c *Cluster) connect(ctx context.Context, o Options) error {
	c.Config = c.Environments()[0].Config()
	var err error
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if len(o.Drivers) == 0 {
		return nil
	}
	fmt.Fprintln(o.Progress, "waiting until the drivers are ready")
	return c.WaitUntilReady(ctx)
}

// Stop stops the cluster and waits until only its folder is left. It may be called again.
func (c *Cluster) Stop() {
	c.ending.Do(func() {
		signal.Stop(c.signals)
		close(c.signals)
		c.Cluster.Stop()
		// The lock ends with this process at the latest.
		_ = c.claim.Close()
	})
}

// stopOnSignal stops the cluster when this process receives a signal, which then ends the process.
func (c *Cluster) stopOnSignal() {
	if _, ok := <-c.signals; !ok {
		return
	}
	c.Stop()
	endProcess()
}

// endProcess ends this process with a signal that it cannot ignore, as a shell's jobs do SIGINT.
func endProcess() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
