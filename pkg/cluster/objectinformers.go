package cluster

import (
	"context"
	"reflect"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Object is an object in the cache of its informer.
type Object[T any] struct {
	factory.Informer
	// Name is the name of the object for messages.
	Name string
	// Read returns the object, or nil if the cache does not contain it.
	Read func() *T
}

// Get returns the object, or nil if the cache does not contain it.
func (o Object[T]) Get() *T { return o.Read() }

func reader[T any](lister interface{ Get(key string) (*T, error) }, key string) func() *T {
	return func() *T {
		object, _ := lister.Get(key) // the only error of a cache is NotFound
		return object
	}
}

// Secret returns a Secret of a side.
func (c *Cluster) Secret(side flavour.Side, namespace, name string) Object[corev1.Secret] {
	secrets := c.Side(side).ObjectInformers.For(namespace, name).Core().V1().Secrets()
	return Object[corev1.Secret]{
		secrets.Informer(), c.Name(side, "Secret", namespace, name),
		reader(secrets.Lister().Secrets(namespace), name),
	}
}

// ConfigMap returns a ConfigMap of a side.
func (c *Cluster) ConfigMap(side flavour.Side, namespace, name string) Object[corev1.ConfigMap] {
	configMaps := c.Side(side).ObjectInformers.For(namespace, name).Core().V1().ConfigMaps()
	return Object[corev1.ConfigMap]{
		configMaps.Informer(), c.Name(side, "ConfigMap", namespace, name),
		reader(configMaps.Lister().ConfigMaps(namespace), name),
	}
}

// Deployment returns a Deployment of a side.
func (c *Cluster) Deployment(side flavour.Side, namespace, name string) Object[appsv1.Deployment] {
	deployments := c.Side(side).ObjectInformers.For(namespace, name).Apps().V1().Deployments()
	return Object[appsv1.Deployment]{
		deployments.Informer(), c.Name(side, "Deployment", namespace, name),
		reader(deployments.Lister().Deployments(namespace), name),
	}
}

// DaemonSet returns a DaemonSet of a side.
func (c *Cluster) DaemonSet(side flavour.Side, namespace, name string) Object[appsv1.DaemonSet] {
	daemonSets := c.Side(side).ObjectInformers.For(namespace, name).Apps().V1().DaemonSets()
	return Object[appsv1.DaemonSet]{
		daemonSets.Informer(), c.Name(side, "DaemonSet", namespace, name),
		reader(daemonSets.Lister().DaemonSets(namespace), name),
	}
}

// ObjectInformers creates informers of single objects. They watch only the object with that name,
// because the namespaces of operators, above all the namespace of a hosted control plane, contain
// many objects of others. The operator must neither keep their content nor react to their changes
// (decision 0066).
type ObjectInformers struct {
	kube      kubernetes.Interface
	mu        sync.Mutex
	factories map[types.NamespacedName]informers.SharedInformerFactory
}

// For returns the informers of the objects of a name in a namespace: one for each kind, the same
// one at each call. Informers that are requested after Start do not run.
func (n *ObjectInformers) For(namespace, name string) informers.SharedInformerFactory {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if n.factories[key] == nil {
		n.factories[key] = newInformers(n.kube, namespace,
			informers.WithTweakListOptions(func(o *metav1.ListOptions) {
				o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
			}))
	}
	return n.factories[key]
}

// Start starts the informers that have been requested.
func (n *ObjectInformers) Start(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, factory := range n.factories {
		factory.StartWithContext(ctx)
	}
}

// WaitForCacheSync waits until the started informers have synced or stop is closed. It returns for
// each object and type whether its informer has synced.
func (n *ObjectInformers) WaitForCacheSync(
	stop <-chan struct{},
) map[types.NamespacedName]map[reflect.Type]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	synced := map[types.NamespacedName]map[reflect.Type]bool{}
	for key, factory := range n.factories {
		synced[key] = factory.WaitForCacheSync(stop)
	}
	return synced
}
