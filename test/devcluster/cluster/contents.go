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
	if c.values.OperatorAddress, err = freeAddress(ctx); err != nil {
		return err
	}
	folders := []string{seed.ClusterFolder, c.opts.Operator.Name}
	if c.cloud != nil {
		folders = append(folders, seed.OpenStackFolder)
	}
	for _, folder := range folders {
		if err := seed.Apply(ctx, c.writer, folder, c.values); err != nil {
			return err
		}
	}
	return nil
}

// freeAddress is on loopback, so that the operator serves nobody else.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// writeFiles writes all that the operator finds in its pod, and the kubeconfigs.
func (c *Cluster) writeFiles(ctx context.Context) error {
	d, operator := c.opts.Dir, c.opts.Operator
	admin, err := seed.AdminKubeconfig(c.plane.Config())
	if err != nil {
		return err
	}
	account, err := seed.ServiceAccountKubeconfig(ctx, c.plane.Config(), operator)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		d.AdminKubeconfig():         admin,
		d.Kubeconfig(operator.Name): account,
		d.OperatorEnv():             []byte(strings.Join(c.OperatorEnv(), "\n") + "\n"),
	}
	for path, content := range files {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("writing %q: %w", path, err)
		}
	}
	return c.project(context.WithoutCancel(ctx))
}

// OperatorEnv is the environment of the operator.
func (c *Cluster) OperatorEnv() []string {
	return append(c.opts.Operator.Env(), "OS_CLIENT_CONFIG_FILE="+c.opts.Dir.OpenStackClouds())
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

// volumes are those of the operator's Deployment.
func (c *Cluster) volumes() []projection.Volume {
	d, operator := c.opts.Dir, c.opts.Operator
	volumes := []projection.Volume{{
		Kind: projection.ConfigMap, Namespace: operator.Namespace, Name: operator.Name + "-config",
		Files: map[string]string{"config.yaml": d.OperatorConfig()},
	}}
	if c.cloud == nil {
		return volumes
	}
	return append(volumes, projection.Volume{
		Kind: projection.Secret, Namespace: operator.Namespace, Name: "openstack-cloud-credentials",
		Files: map[string]string{
			"clouds.yaml": d.OpenStackClouds(),
			"cacert":      filepath.Join(d.OpenStack(), "ca.crt"),
		},
	}, projection.Volume{
		Kind: projection.ConfigMap, Namespace: operator.Namespace, Name: "cloud-provider-config",
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
	_, err = c.client.CoreV1().ServiceAccounts(c.opts.Operator.OperandNamespace).Get(ctx, "default", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "the controller manager has made no service accounts yet", nil
	}
	return "", err
}

func isReady(node corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
