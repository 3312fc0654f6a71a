package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/devcluster/projection"
	"github.com/openstack-csi/csi-operator/test/devcluster/seed"
)

func (c *Cluster) seed(ctx context.Context) error {
	var err error
	if c.writer, err = seed.NewWriter(c.plane.Config()); err != nil {
		return err
	}
	if err := seed.Apply(ctx, c.writer, seed.ClusterFolder, c.values); err != nil {
		return err
	}
	addresses, err := freeAddresses(ctx, len(c.opts.Operators))
	if err != nil {
		return err
	}
	for i, o := range c.opts.Operators {
		values := c.values
		values.OperatorAddress = addresses[i]
		if err := seed.Apply(ctx, c.writer, o.Name, values); err != nil {
			return err
		}
	}
	if c.cloud == nil {
		return nil
	}
	return seed.Apply(ctx, c.writer, seed.OpenStackFolder, c.values)
}

// freeAddresses are on loopback, so that operators serve nobody else. No port is
// freed before all are found: no two operators must get the same.
func freeAddresses(ctx context.Context, count int) ([]string, error) {
	var taken []net.Listener
	defer func() {
		for _, l := range taken {
			// A listener that nobody connected to has nothing to lose.
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

// writeFiles writes all that the operators find in their pods, and the kubeconfigs.
func (c *Cluster) writeFiles(ctx context.Context) error {
	d := c.opts.Dir
	admin, err := seed.AdminKubeconfig(c.plane.Config())
	if err != nil {
		return err
	}
	files := map[string][]byte{d.AdminKubeconfig(): admin}
	for _, o := range c.opts.Operators {
		if files[d.Kubeconfig(o.Name)], err = seed.ServiceAccountKubeconfig(ctx, c.plane.Config(), o); err != nil {
			return err
		}
		files[d.OperatorEnv(o.Name)] = []byte(strings.Join(c.OperatorEnv(o), "\n") + "\n")
	}
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("writing %q: %w", path, err)
		}
	}
	first := filepath.Base(d.OperatorEnv(c.opts.Operators[0].Name))
	if err := os.Symlink(first, d.FirstOperatorEnv()); err != nil {
		return fmt.Errorf("naming the environment of the first operator: %w", err)
	}
	return c.project(context.WithoutCancel(ctx))
}

// OperatorEnv is the environment of an operator.
func (c *Cluster) OperatorEnv(o seed.Operator) []string {
	return append(o.Env(), "OS_CLIENT_CONFIG_FILE="+c.opts.Dir.OpenStackClouds())
}

func (c *Cluster) project(ctx context.Context) error {
	ctx, c.cancel = context.WithCancel(ctx)
	return projection.Run(ctx, c.client, c.volumes(), func(err error) {
		select {
		case c.failed <- err:
		default:
		}
	})
}

// volumes are those of the operators' Deployments. All of them mount the same
// credentials, and the same ConfigMap with the CA.
func (c *Cluster) volumes() []projection.Volume {
	d := c.opts.Dir
	var volumes []projection.Volume
	for _, o := range c.opts.Operators {
		volumes = append(volumes, projection.Volume{
			Kind: projection.ConfigMap, Namespace: o.Namespace, Name: o.Name + "-config",
			Files: map[string]string{"config.yaml": d.OperatorConfig(o.Name)},
		})
	}
	if c.cloud == nil {
		return volumes
	}
	namespace := c.opts.Operators[0].Namespace
	return append(volumes, projection.Volume{
		Kind: projection.Secret, Namespace: namespace, Name: "openstack-cloud-credentials",
		Files: map[string]string{
			"clouds.yaml": d.OpenStackClouds(),
			"cacert":      filepath.Join(d.OpenStack(), "ca.crt"),
		},
	}, projection.Volume{
		Kind: projection.ConfigMap, Namespace: namespace, Name: "cloud-provider-config",
		Files: map[string]string{"ca-bundle.pem": filepath.Join(d.OpenStackCA(), "ca-bundle.pem")},
	})
}

// waitForNodes proves that kwok and the controller manager work.
func (c *Cluster) waitForNodes(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("not ready within a minute"))
	defer cancel()
	var missing string
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-c.plane.Failed():
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
	return err
}

func (c *Cluster) missing(ctx context.Context) (string, error) {
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("listing nodes: %w", err)
	}
	for _, node := range nodes.Items {
		if !isReady(node) {
			return "node " + node.Name + " is not ready", nil
		}
	}
	for _, o := range c.opts.Operators {
		_, err = c.client.CoreV1().ServiceAccounts(o.OperandNamespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "the controller manager has made no service accounts yet", nil
		}
		if err != nil {
			return "", fmt.Errorf("looking for a service account: %w", err)
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
