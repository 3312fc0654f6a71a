//go:build integration

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
)

const (
	// podImage contains the program testpod, which is also the pause program. podProgram is its path
	// in the image.
	podImage   = "docker.io/test/pod:1"
	podProgram = "/pod"
	// namespace contains the pods of the tests.
	namespace = "default"
	// timeout bounds every wait, for a busy machine.
	timeout = 3 * time.Minute
)

// shared is the cluster of all tests.
var shared *testCluster //nolint:gochecknoglobals // TestMain creates it for all tests

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		fmt.Fprintln(os.Stderr, runParent(dir))
		os.Exit(1)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	programs := os.Getenv("NODE_BIN_DIR")
	if err := Check(programs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "node-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if shared, err = startCluster(dir, programs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// testCluster is a control plane with two nodes.
type testCluster struct {
	dir     string
	network *Network
	plane   *controlplane.ControlPlane
	nodes   []*Node
	client  kubernetes.Interface
}

func startCluster(dir, programs string) (*testCluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c := &testCluster{dir: dir}
	if err := c.start(ctx, programs); err != nil {
		return nil, fmt.Errorf("%w; stopping: %w", err, c.stop())
	}
	return c, nil
}

func (c *testCluster) start(ctx context.Context, programs string) error {
	image := filepath.Join(c.dir, "images", "pod.tar")
	if err := writeImage(image); err != nil {
		return err
	}
	var err error
	if c.network, err = NewNetwork(2); err != nil {
		return err
	}
	c.plane, err = controlplane.Start(ctx, controlplane.Options{
		Binaries: os.Getenv("K8S_BIN_DIR"), Dir: filepath.Join(c.dir, "plane"),
		Logs: filepath.Join(c.dir, "logs"), AuditLog: filepath.Join(c.dir, "audit.log"),
		Kubeconfig: c.kubeconfig(), Address: c.network.Machine(),
	})
	if err != nil {
		return err
	}
	c.client = c.plane.Client()
	for number := 1; number <= 2; number++ {
		if err := c.startNode(ctx, number, programs, image); err != nil {
			return err
		}
	}
	return c.waitForNodes(ctx)
}

func (c *testCluster) startNode(ctx context.Context, number int, programs, image string) error {
	name := fmt.Sprintf("node-%d", number)
	kubelet, err := c.plane.Issue("system:node:"+name, "system:nodes")
	if err != nil {
		return err
	}
	proxy, err := c.plane.Issue("system:kube-proxy")
	if err != nil {
		return err
	}
	node, err := Start(ctx, c.network, Options{
		Number: number, Name: name, Dir: filepath.Join(c.dir, "nodes", name),
		Logs: filepath.Join(c.dir, "logs"), Programs: programs,
		Supervisor: filepath.Join(os.Getenv("BIN_DIR"), "devnode"),
		Volumes:    filepath.Join(c.dir, "volumes"), Kubeconfig: kubelet, ProxyKubeconfig: proxy,
		ClientCA: c.plane.KubeletCA(), Images: []string{image}, Sandbox: podImage,
	})
	if err == nil {
		c.nodes = append(c.nodes, node)
	}
	return err
}

func (c *testCluster) waitForNodes(ctx context.Context) error {
	for _, node := range c.nodes {
		err := poll(ctx, func(ctx context.Context) error {
			found, err := c.client.CoreV1().Nodes().Get(ctx, node.Name(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, condition := range found.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("node %s is not ready: %v", node.Name(), found.Status.Conditions)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *testCluster) kubeconfig() string { return filepath.Join(c.dir, "admin.kubeconfig") }

func (c *testCluster) stop() error {
	for _, node := range c.nodes {
		if err := node.Stop(); err != nil {
			return err
		}
	}
	if c.plane != nil {
		c.plane.Stop()
	}
	if c.network != nil {
		return c.network.Close()
	}
	return nil
}

// poll calls check until it returns nil, and returns its last error after the timeout.
func poll(ctx context.Context, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true,
		func(ctx context.Context) (bool, error) {
			last = check(ctx)
			return last == nil, nil
		})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}
