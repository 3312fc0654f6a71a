//go:build integration

// Package integration tests the operators against real Kubernetes API servers (test/devcluster)
// and an OpenStack that fails on request (test/openstack/simulator). `make test-integration` and
// CI run it.
//
// The variable BIN_DIR is the folder of the programs, K8S_BIN_DIR the cache of Kubernetes binaries.
//
// Every test starts with newEnv. It returns a cluster in the state in which
// cluster-storage-operator leaves it, an OpenStack of its own and a running operator: Manila's,
// standalone, unless the options say otherwise. When the test ends, newEnv's cleanup fails the test
// if the operator crashed, if RBAC refused one of its requests, or if a password, token or key is
// in its log, its metrics, an audit log or any object but a Secret. Operators of hosted control
// planes run with the highest log level.
//
// Tests run in parallel. newEnv waits until a cluster of the flavour is free, resets it, and
// returns it to the pool when the test ends, so no two tests share a cluster. The flags -standalone
// and -hypershift set the number of clusters; each starts when a test first needs it. A test calls
// newEnv once: a subtest that needs its own environment runs in parallel, too. With -v each test
// logs which cluster it used, how long it waited for it, and how long it used it.
package integration

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	devcluster "github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// clusterPools contains the clusters that all tests share.
type clusterPools struct {
	dir        string // contains all state and the operators' logs
	bin        string // contains the programs
	kubernetes string // contains the Kubernetes binaries
	pools      map[flavour.Flavour]pool
	all        []*testCluster // of all pools
	// operators are those that cluster-storage-operator deploys, by driver.
	operators map[string]fixtures.Operator
}

// pool contains the clusters of one flavour that no test uses.
type pool struct {
	idle   chan *testCluster // running
	unused chan *testCluster // not started yet
}

// shared is set by TestMain before any test runs.
var shared *clusterPools //nolint:gochecknoglobals // TestMain cannot pass values to tests.

func TestMain(m *testing.M) {
	pairs := 1 // a running API server costs CPU time even if it is idle
	if long {
		pairs = 2
	}
	limits := map[flavour.Flavour]*int{
		flavour.Standalone: flag.Int("standalone", 3, "maximum number of standalone clusters"),
		flavour.HyperShift: flag.Int("hypershift", pairs,
			"maximum number of pairs of management and guest cluster"),
	}
	flag.Parse()
	log.SetLogger(logr.Discard())  // envtest's messages repeat errors
	klog.SetLogger(logr.Discard()) // informers repeat that an API server is stopped
	os.Exit(withClusters(limits, m.Run))
}

// withClusters runs the tests and removes the clusters. It keeps the logs if a test failed.
func withClusters(limits map[flavour.Flavour]*int, run func() int) int {
	c, err := newClusterPools(limits)
	if err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		return 1
	}
	shared = c
	process.KillOnSignal(c.dir, c.kubernetes, c.bin)
	code := run()
	c.stop()
	if code == 0 && ranWholeSuite() {
		code = c.checkPermissions()
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "All logs are kept in", c.dir)
		return code
	}
	_ = os.RemoveAll(c.dir)
	return code
}

// checkPermissions returns 1 if the Roles of the operators contain a permission without use.
func (c *clusterPools) checkPermissions() int {
	unused, err := c.unusedPermissions()
	if err != nil {
		fmt.Fprintln(os.Stderr, "comparing the Roles with the audit logs:", err)
		return 1
	}
	for _, permission := range unused {
		fmt.Fprintln(os.Stderr, "no test uses a permission:", permission)
	}
	return min(len(unused), 1)
}

func newClusterPools(limits map[flavour.Flavour]*int) (*clusterPools, error) {
	c := &clusterPools{
		pools: map[flavour.Flavour]pool{}, operators: map[string]fixtures.Operator{},
	}
	// Control planes use most of the CPU time. With four times the memory they use a quarter less.
	if err := os.Setenv("GOGC", "400"); err != nil {
		return nil, err
	}
	var err error
	if c.bin, err = filepath.Abs(cmp.Or(os.Getenv("BIN_DIR"), "../../bin")); err != nil {
		return nil, err
	}
	c.kubernetes, err = filepath.Abs(cmp.Or(os.Getenv("K8S_BIN_DIR"), "../../bin/k8s"))
	if err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "csi-operator-integration-"); err != nil {
		return nil, err
	}
	operators, err := fixtures.AllOperators()
	if err != nil {
		return nil, err
	}
	for _, o := range operators {
		c.operators[o.Driver] = o
	}
	for f, limit := range limits {
		if *limit < 1 {
			return nil, fmt.Errorf("-%s=%d is below 1", f, *limit)
		}
		p := pool{make(chan *testCluster, *limit), make(chan *testCluster, *limit)}
		for i := range *limit {
			name := fmt.Sprintf("%s-%d", f, i+1)
			options := devcluster.Options{
				Dir: paths.Dir(filepath.Join(c.dir, name)), Binaries: c.kubernetes, NoCloud: true,
				Operators: operators, Progress: io.Discard,
			}
			if f == flavour.HyperShift {
				options.Guests = 1
			}
			one := &testCluster{
				flavour: f, name: name, bin: c.bin, options: options, failed: make(chan error, 1),
			}
			c.all = append(c.all, one)
			p.unused <- one
		}
		c.pools[f] = p
	}
	return c, nil
}

// borrow returns a running cluster of a flavour that no other test uses. It prefers a cluster that
// runs already.
func (c *clusterPools) borrow(ctx context.Context, f flavour.Flavour) (*testCluster, error) {
	p := c.pools[f]
	select {
	case borrowed := <-p.idle:
		return borrowed, nil
	default:
	}
	select {
	case borrowed := <-p.idle:
		return borrowed, nil
	case borrowed := <-p.unused:
		if err := borrowed.start(ctx); err != nil {
			p.unused <- borrowed
			return nil, err
		}
		return borrowed, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// giveBack makes a cluster available to other tests.
func (c *clusterPools) giveBack(returned *testCluster) {
	c.pools[returned.flavour].idle <- returned
}

// stop stops all clusters. It must be called after all tests.
func (c *clusterPools) stop() {
	var stopping sync.WaitGroup
	for _, p := range c.pools {
		close(p.idle)
		for idle := range p.idle {
			stopping.Go(idle.running.Stop)
		}
	}
	stopping.Wait()
}
