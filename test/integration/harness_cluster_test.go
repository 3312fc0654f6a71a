//go:build integration

// Package integration proves what the operators promise: a program runs, as its service account, against a real
// Kubernetes API server (test/devcluster), and finds an OpenStack that fails as it is told (test/openstack/simulator).
//
// BIN_DIR is the folder with the programs, bin of the source tree by default; K8S_BIN_DIR is the cache of Kubernetes binaries.
// A test begins with newEnv, which gives it a cluster as cluster-storage-operator leaves it, a cloud of its own and a running
// operator, and which looks afterwards for what no test may leave: a crash, a secret in a log, a request that was refused.
// There is one cluster, with one ClusterCSIDriver of each operator, so that tests run one after the other. The operator under
// test is Manila's unless the options name another subject.
package integration

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"
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

// devcluster is the cluster that all tests share.
type devcluster struct {
	dir      string // all state, the logs of the operators too
	bin      string // the programs
	config   *rest.Config
	kube     kubernetes.Interface
	openst   operatorclient.Interface
	dynamic  dynamic.Interface
	baseline baseline
}

// shared is set by TestMain before any test runs.
var shared *devcluster //nolint:gochecknoglobals // TestMain has no other way to hand something to tests.

func TestMain(m *testing.M) {
	os.Exit(withCluster(m.Run))
}

// withCluster runs tests on a cluster, which it removes if they pass.
func withCluster(run func() int) int {
	ctx := context.Background()
	c, err := upCluster(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		return 1
	}
	shared = c
	code := run()
	if err := c.command(ctx, "down"); err != nil {
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

// kubernetesBinaries is the cache that the devcluster runs from; kubectl is in it too.
func kubernetesBinaries() string {
	return cmp.Or(os.Getenv("K8S_BIN_DIR"), filepath.Join("..", "..", "bin", "k8s"))
}

func upCluster(ctx context.Context) (*devcluster, error) {
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
	c := &devcluster{dir: dir, bin: bin}
	args := []string{"up", "--cloud=none", "--drivers=manila,cinder"}
	args = append(args, "--binaries="+kubernetesBinaries())
	if err := c.command(ctx, args...); err != nil {
		return nil, err
	}
	if err := c.connect(ctx); err != nil {
		return nil, fmt.Errorf("%w (and %w)", err, c.command(ctx, "down"))
	}
	return c, nil
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
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "admin.kubeconfig"))
	if err != nil {
		return err
	}
	config.QPS, config.UserAgent = -1, "integration-test"
	c.config = config
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.openst, err = operatorclient.NewForConfig(config); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	c.baseline, err = c.takeBaseline(ctx)
	return err
}

// auditLog is the path of the API server's.
func (c *devcluster) auditLog() string { return filepath.Join(c.dir, "audit.log") }

// kubeconfig is the path of an operator's.
func (c *devcluster) kubeconfig(operator string) string {
	return filepath.Join(c.dir, operator+".kubeconfig")
}

// environment is that of an operator's Deployment.
func (c *devcluster) environment(operator string) ([]string, error) {
	return readLines(filepath.Join(c.dir, operator+".env"))
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
