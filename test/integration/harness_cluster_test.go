//go:build integration

// Package integration proves what the operators promise: a program runs, as its service account, against a real
// Kubernetes API server (test/devcluster), and finds an OpenStack that fails as it is told (test/openstack/simulator).
//
// BIN_DIR is the folder with the programs, bin of the source tree by default; K8S_BIN_DIR is the cache of Kubernetes binaries.
// A test begins with newEnv, which gives it a cluster as cluster-storage-operator leaves it, a cloud of its own and a running
// operator, and which looks afterwards for what no test may leave: a crash, a secret in a log, a request that was refused.
// There is one cluster of each flavour, with one ClusterCSIDriver of each operator, so that tests run one after the other. The
// flavour is standalone and the operator under test Manila's, unless the options say otherwise. With HyperShift there are two API
// servers: what a test does without saying where, it does in the cluster that the drivers serve.
package integration

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// clusters are those that all tests share. Each comes up when a test first needs it.
type clusters struct {
	dir string // all state, the logs of the operators too
	bin string // the programs
	up  map[flavour.Flavour]*devcluster
}

// shared is set by TestMain before any test runs.
var shared *clusters //nolint:gochecknoglobals // TestMain has no other way to hand something to tests.

func TestMain(m *testing.M) {
	os.Exit(withClusters(m.Run))
}

// withClusters runs tests on clusters, which it removes if they pass.
func withClusters(run func() int) int {
	c, err := newClusters()
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

func newClusters() (*clusters, error) {
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
	return &clusters{dir: dir, bin: bin, up: map[flavour.Flavour]*devcluster{}}, nil
}

// of returns the cluster of a flavour.
func (c *clusters) of(ctx context.Context, f flavour.Flavour) (*devcluster, error) {
	if found := c.up[f]; found != nil {
		return found, nil
	}
	d := &devcluster{flavour: f, dir: filepath.Join(c.dir, string(f)), bin: c.bin}
	args := []string{"up", "--cloud=none", "--drivers=manila,cinder", "--flavour=" + string(f), "--binaries=" + kubernetesBinaries()}
	if err := d.command(ctx, args...); err != nil {
		return nil, err
	}
	if err := d.connect(ctx); err != nil {
		return nil, fmt.Errorf("%w (and %w)", err, d.command(ctx, "down"))
	}
	c.up[f] = d
	return d, nil
}

func (c *clusters) down(ctx context.Context) error {
	var errs []error
	for _, d := range c.up {
		errs = append(errs, d.command(ctx, "down"))
	}
	return errors.Join(errs...)
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
	// dir has all state, site what the operators find in their pods.
	dir, site string
	bin       string
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
