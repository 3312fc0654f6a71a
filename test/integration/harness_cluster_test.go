//go:build integration

// Package integration proves what the operators promise: a program runs, as its service account, against a real
// Kubernetes API server (test/devcluster), and finds an OpenStack that fails as it is told (test/openstack/simulator).
//
// BIN_DIR is the folder with the programs, bin of the source tree by default; K8S_BIN_DIR is the cache of Kubernetes binaries.
// A test begins with newEnv, which gives it a cluster as cluster-storage-operator leaves it, a cloud of its own and a running
// operator, and which looks afterwards for what no test may leave: a crash, a secret in a log, a request that was refused.
// The flavour is standalone and the operator under test Manila's, unless the options say otherwise. With HyperShift there are two
// API servers: what a test does without saying where, it does in the cluster that the drivers serve.
//
// Tests are parallel. newEnv waits for a cluster of the flavour that no other test uses, resets it, and gives it back when the
// test ends, so a test owns its cluster. The flags -standalone and -hypershift say how many clusters there are; each starts when
// a test first needs it. A test must not call newEnv twice: a subtest that needs an environment of its own is parallel, too. With
// -v each test logs which cluster it had, how long it waited for it, and how long it used it.
package integration

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const (
	operatorName      = "manila-csi-driver-operator"
	operatorNamespace = "openshift-cluster-csi-drivers"
	operandNamespace  = "openshift-manila-csi-driver"
	driverName        = "manila.csi.openstack.org"
	operatorUser      = "system:serviceaccount:" + operatorNamespace + ":" + operatorName
	controllerName    = "openstack-manila-csi-controllerplugin"
	nodeName          = "openstack-manila-csi-nodeplugin"
	nfsNodeName       = "csi-nodeplugin-nfsplugin"
)

// clusters are those that all tests share.
type clusters struct {
	dir   string // all state, the logs of the operators too
	bin   string // the programs
	pools map[flavour.Flavour]pool
}

// pool has the clusters of a flavour that no test uses: idle ones are up, spare ones have not been needed so far.
type pool struct {
	idle, spare chan *devcluster
}

// shared is set by TestMain before any test runs.
var shared *clusters //nolint:gochecknoglobals // TestMain has no other way to hand something to tests.

func TestMain(m *testing.M) {
	most := map[flavour.Flavour]*int{
		flavour.Standalone: flag.Int("standalone", 3, "how many standalone clusters there are at most, for tests that run side by side"),
		flavour.HyperShift: flag.Int("hypershift", 2, "how many pairs of management and hosted cluster there are at most"),
	}
	flag.Parse()
	os.Exit(withClusters(most, m.Run))
}

// withClusters runs tests on clusters, which it removes if they pass.
func withClusters(most map[flavour.Flavour]*int, run func() int) int {
	c, err := newClusters(most)
	if err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		return 1
	}
	shared = c
	code := run()
	if err := c.down(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "All logs are kept in", c.dir)
		return code
	}
	_ = os.RemoveAll(c.dir)
	return code
}

func newClusters(most map[flavour.Flavour]*int) (*clusters, error) {
	bin := os.Getenv("BIN_DIR")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "csi-operator-integration-")
	if err != nil {
		return nil, err
	}
	c := &clusters{dir: dir, bin: bin, pools: map[flavour.Flavour]pool{}}
	for f, number := range most {
		if *number < 1 {
			return nil, fmt.Errorf("-%s=%d is below 1", f, *number)
		}
		p := pool{make(chan *devcluster, *number), make(chan *devcluster, *number)}
		for i := range *number {
			name := fmt.Sprintf("%s-%d", f, i+1)
			p.spare <- &devcluster{flavour: f, name: name, dir: filepath.Join(dir, name), bin: bin}
		}
		c.pools[f] = p
	}
	return c, nil
}

// borrow returns a cluster of a flavour that is up and that no other test uses. The test gives it back to the idle ones.
func (c *clusters) borrow(ctx context.Context, f flavour.Flavour) (*devcluster, error) {
	p := c.pools[f]
	select {
	case d := <-p.idle: // rather than to start one
		return d, nil
	default:
	}
	select {
	case d := <-p.idle:
		return d, nil
	case d := <-p.spare:
		if err := d.start(ctx); err != nil {
			p.spare <- d
			return nil, err
		}
		return d, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// down stops all clusters. No test uses one any more.
func (c *clusters) down(ctx context.Context) error {
	var downs []func() error
	for _, p := range c.pools {
		close(p.idle)
		for d := range p.idle {
			downs = append(downs, func() error { return d.command(ctx, "down") })
		}
	}
	if err := utilerrors.AggregateGoroutines(downs...); err != nil {
		return err
	}
	return nil
}

// kubernetesBinaries is the cache that the devcluster runs from; kubectl is in it too.
func kubernetesBinaries() string {
	return cmp.Or(os.Getenv("K8S_BIN_DIR"), filepath.Join("..", "..", "bin", "k8s"))
}

// devcluster is what operators and drivers run in: a cluster, or two of them.
type devcluster struct {
	*side // of the cluster that the drivers serve: the guest

	// management is the cluster that the operators and the drivers' controllers run in; standalone it is the same.
	management *side
	flavour    flavour.Flavour
	name       string
	// dir has all state, site what the operators find in their pods.
	dir, site string
	bin       string
}

// start brings the cluster up.
func (c *devcluster) start(ctx context.Context) error {
	args := []string{"up", "--cloud=none", "--drivers=manila,cinder", "--flavour=" + string(c.flavour), "--binaries=" + kubernetesBinaries()}
	if err := c.command(ctx, args...); err != nil {
		return err
	}
	if err := c.connect(ctx); err != nil {
		return fmt.Errorf("%w (and %w)", err, c.command(ctx, "down"))
	}
	return nil
}

// sides are the clusters, each once.
func (c *devcluster) sides() []*side {
	return slices.Compact([]*side{c.side, c.management})
}

// command runs a devcluster command on this cluster.
func (c *devcluster) command(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "devcluster"), append(args, "--dir="+c.dir)...)
	// Control planes use the largest part of the CPU time. With four times the memory they use a quarter less of it.
	cmd.Env = append(os.Environ(), "GOGC=400")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running devcluster %s: %w\n%s", args[0], err, output.String())
	}
	return nil
}

func (c *devcluster) connect(ctx context.Context) error {
	c.site = c.dir
	c.management = &side{name: "management", dir: c.dir, namespace: operatorNamespace, restored: configuration()}
	c.side = c.management
	if c.flavour == flavour.HyperShift {
		c.site = filepath.Join(c.dir, "guests", guestName)
		c.management.namespace, c.management.restored = hostedNamespace, controlPlane()
		c.side = &side{name: "guest", dir: c.site, namespace: operatorNamespace, admin: guestAdmin, restored: configuration()}
	}
	var errs []error
	for _, s := range c.sides() {
		errs = append(errs, s.connect(ctx))
	}
	return errors.Join(errs...)
}

// kubeconfig is the path of an operator's.
func (c *devcluster) kubeconfig(operator string) string {
	return filepath.Join(c.site, operator+".kubeconfig")
}

// environment is that of an operator's Deployment.
func (c *devcluster) environment(operator string) ([]string, error) {
	return readLines(filepath.Join(c.site, operator+".env"))
}

func readLines(path string) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if line := strings.TrimSpace(scanner.Text()); line != "" {
			lines = append(lines, line)
		}
	}
	return lines, scanner.Err()
}
