//go:build integration

package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	devcluster "github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/site"
)

// administrator is the field manager of changes that tests make as an administrator.
const administrator = "an-administrator"

// testCluster is a devcluster: one cluster, or a management cluster and a guest cluster.
type testCluster struct {
	// guest contains the nodes that the drivers serve. management runs the operators and the
	// drivers' controllers. Standalone both are the same.
	guest, management *cluster

	flavour flavour.Flavour
	name    string
	podDir  paths.Dir // contains the files that operators find in their pods

	options devcluster.Options
	running *devcluster.Cluster
	failed  chan error // contains the error of a component that ended
}

func (c *testCluster) String() string { return c.name }

// Prepare starts the cluster and connects to it, or resets it if it runs already.
func (c *testCluster) Prepare(ctx context.Context) error {
	if c.running != nil {
		var errs []error
		for _, each := range c.clusters() {
			errs = append(errs, each.store.Reset(ctx))
		}
		return errors.Join(append(errs, c.failure())...)
	}
	started, err := devcluster.Start(ctx, c.options)
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.name, err)
	}
	if err := c.connect(ctx, started.Environments()[0]); err != nil {
		started.Stop()
		return fmt.Errorf("connecting to %s: %w", c.name, err)
	}
	c.running = started
	go func() { c.failed <- started.Wait(context.WithoutCancel(ctx)) }()
	return nil
}

// Stop stops the cluster, if it runs.
func (c *testCluster) Stop() {
	if c.running != nil {
		c.running.Stop()
	}
}

// failure returns an error if a component of the cluster has ended.
func (c *testCluster) failure() error {
	select {
	case err := <-c.failed:
		c.failed <- err // for the next call
		return fmt.Errorf("%s failed: %w", c.name, err)
	default:
		return nil
	}
}

func (c *testCluster) isHosted() bool { return c.flavour == flavour.HyperShift }

// clusters returns each of the clusters once.
func (c *testCluster) clusters() []*cluster {
	return slices.Compact([]*cluster{c.guest, c.management})
}

func (c *testCluster) connect(ctx context.Context, in *devcluster.Environment) error {
	c.podDir = in.Dir
	c.management = &cluster{
		name: string(flavour.ControlPlane), dir: c.options.Dir, namespace: operatorNamespace,
	}
	c.guest = c.management
	if c.isHosted() {
		c.management.namespace = hostedNamespace
		c.guest = &cluster{
			name: string(flavour.Guest), dir: c.podDir, namespace: operatorNamespace,
			operatorUser: guestAdmin,
		}
	}
	err := c.management.connect(ctx, in.ControlConfig(), in.ControlEtcd())
	if err == nil && c.isHosted() {
		err = c.guest.connect(ctx, in.Config(), in.Etcd())
	}
	return err
}

// cluster gives access to one API server as an administrator.
type cluster struct {
	name string    // for messages
	dir  paths.Dir // contains the devcluster's files about this cluster
	// namespace is the operators' namespace in this cluster.
	namespace string
	// operatorUser is the user of all operators here, if they have no ServiceAccounts.
	operatorUser string

	config  *rest.Config
	kube    kubernetes.Interface
	openst  operatorclient.Interface
	dynamic dynamic.Interface
	store   *site.Store
}

// connect creates the clients, and records what the cluster contains.
func (c *cluster) connect(ctx context.Context, config *rest.Config, etcd string) error {
	config.QPS, config.UserAgent = -1, "integration-test"
	c.config = config
	var err error
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.openst, err = operatorclient.NewForConfig(config); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	c.store, err = site.NewStore(ctx, etcd)
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

func crds() schema.GroupVersionResource {
	return resource("apiextensions.k8s.io", "customresourcedefinitions")
}

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

// create creates an object with the content of an earlier one.
func (c *cluster) create(
	ctx context.Context, resource schema.GroupVersionResource, first unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	object := first.DeepCopy()
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetManagedFields(nil)
	return c.of(collection{resource, first.GetNamespace()}).Create(ctx, object, metav1.CreateOptions{})
}

func (c *cluster) secret(ctx context.Context, namespace, name string) (map[string]string, error) {
	secret, err := c.kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	data := map[string]string{}
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	return data, nil
}

// putSecret creates or replaces a Secret.
func (c *cluster) putSecret(
	ctx context.Context, namespace, name string, data map[string][]byte,
) error {
	return put(ctx, c.kube.CoreV1().Secrets(namespace),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data})
}

// putConfigMap creates or replaces a ConfigMap.
func (c *cluster) putConfigMap(
	ctx context.Context, namespace, name string, data map[string]string,
) error {
	return put(ctx, c.kube.CoreV1().ConfigMaps(namespace),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data})
}

// writer is a client of the objects of a type.
type writer[T any] interface {
	Create(ctx context.Context, object *T, options metav1.CreateOptions) (*T, error)
	Update(ctx context.Context, object *T, options metav1.UpdateOptions) (*T, error)
}

// put creates or replaces an object.
func put[T any](ctx context.Context, client writer[T], object *T) error {
	_, err := client.Update(ctx, object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, object, metav1.CreateOptions{})
	}
	return err
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
