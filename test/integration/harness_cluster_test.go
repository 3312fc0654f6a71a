//go:build integration

package integration

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

// administrator is the field manager of changes that tests make as an administrator.
const administrator = "an-administrator"

// kubernetesBinaries returns the cache of Kubernetes binaries, which also contains kubectl.
func kubernetesBinaries() string {
	return cmp.Or(os.Getenv("K8S_BIN_DIR"), filepath.Join("..", "..", "bin", "k8s"))
}

// testCluster is a devcluster: one cluster, or a management cluster and a guest cluster.
type testCluster struct {
	// guest contains the nodes that the drivers serve. management runs the operators and the
	// drivers' controllers. Standalone both are the same.
	guest, management *cluster

	flavour flavour.Flavour
	name    string
	dir     paths.Dir // contains all state
	podDir  paths.Dir // contains the files that operators find in their pods
	bin     string
}

// start starts the cluster and connects to it.
func (c *testCluster) start(ctx context.Context) error {
	err := c.command(ctx, "up", "--cloud=none", "--drivers=manila,cinder",
		"--flavour="+string(c.flavour), "--binaries="+kubernetesBinaries())
	if err != nil {
		return err
	}
	if err := c.connect(ctx); err != nil {
		return fmt.Errorf("%w (and %w)", err, c.command(ctx, "down"))
	}
	return nil
}

// clusters returns each of the clusters once.
func (c *testCluster) clusters() []*cluster {
	return slices.Compact([]*cluster{c.guest, c.management})
}

// command runs a devcluster command on this cluster.
func (c *testCluster) command(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	program := filepath.Join(c.bin, "devcluster")
	cmd := exec.CommandContext(ctx, program, append(args, "--dir="+string(c.dir))...)
	// Control planes use most of the CPU time. With four times the memory they use a quarter less.
	cmd.Env = append(os.Environ(), "GOGC=400")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running devcluster %s: %w\n%s", args[0], err, output.String())
	}
	return nil
}

func (c *testCluster) connect(ctx context.Context) error {
	c.podDir = c.dir
	c.management = &cluster{
		name: "management", dir: c.dir, namespace: operatorNamespace, restored: configCollections(),
	}
	c.guest = c.management
	if c.flavour == flavour.HyperShift {
		c.podDir = c.dir.Guest(guestName)
		c.management.namespace = hostedNamespace
		c.management.restored = controlPlaneCollections()
		c.guest = &cluster{
			name: "guest", dir: c.podDir, namespace: operatorNamespace, operatorUser: guestAdmin,
			restored: configCollections(),
		}
	}
	var errs []error
	for _, each := range c.clusters() {
		errs = append(errs, each.connect(ctx))
	}
	return errors.Join(errs...)
}

// cluster gives access to one API server as an administrator.
type cluster struct {
	name string    // for messages
	dir  paths.Dir // contains the devcluster's files about this cluster
	// namespace is the operators' namespace in this cluster.
	namespace string
	// operatorUser is the user of all operators here, if they have no ServiceAccounts.
	operatorUser string
	// restored are the collections whose original content the reset restores.
	restored []collection

	config   *rest.Config
	kube     kubernetes.Interface
	openst   operatorclient.Interface
	dynamic  dynamic.Interface
	baseline baseline
}

func (c *cluster) connect(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", c.dir.AdminKubeconfig())
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
	c.baseline, err = c.recordBaseline(ctx)
	return err
}

// user returns the user name of an operator in this cluster.
func (c *cluster) user(operator string) string {
	return cmp.Or(c.operatorUser, "system:serviceaccount:"+c.namespace+":"+operator)
}

// resource returns version 1 of a resource.
func resource(group, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}
}

func configResource(name string) schema.GroupVersionResource {
	return resource("config.openshift.io", name)
}

func clusterCSIDrivers() schema.GroupVersionResource {
	return resource("operator.openshift.io", "clustercsidrivers")
}

func secrets() schema.GroupVersionResource    { return resource("", "secrets") }
func configMaps() schema.GroupVersionResource { return resource("", "configmaps") }

// collection is the set of objects of a resource in a namespace. Without a namespace it contains
// the objects of all namespaces.
type collection struct {
	resource  schema.GroupVersionResource
	namespace string
}

// of returns the client of a collection.
func (c *cluster) of(in collection) dynamic.ResourceInterface {
	return c.dynamic.Resource(in.resource).Namespace(in.namespace)
}

// patch merges JSON into an object, or into one of its subresources.
func (c *cluster) patch(
	ctx context.Context, in collection, name, text string, subresources ...string,
) error {
	options := metav1.PatchOptions{FieldManager: administrator}
	_, err := c.of(in).
		Patch(ctx, name, types.MergePatchType, []byte(text), options, subresources...)
	return err
}

// putSecret creates or replaces a Secret.
func (c *cluster) putSecret(
	ctx context.Context, namespace, name string, data map[string][]byte,
) error {
	client := c.kube.CoreV1().Secrets(namespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	_, err := client.Update(ctx, secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, secret, metav1.CreateOptions{})
	}
	return err
}

// putConfigMap creates or replaces a ConfigMap.
func (c *cluster) putConfigMap(
	ctx context.Context, namespace, name string, data map[string]string,
) error {
	client := c.kube.CoreV1().ConfigMaps(namespace)
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	_, err := client.Update(ctx, configMap, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, configMap, metav1.CreateOptions{})
	}
	return err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
