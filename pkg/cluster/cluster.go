// Package cluster connects an operator to its API servers: it contains the clients and informers of
// both sides, which are one cluster in the standalone flavour. Its callers are pkg/operator,
// pkg/plugin, pkg/cloudprobe, pkg/credential, pkg/hook and the driver plugins.
//
// The ways to watch something, all for WithInformers of a controller:
//   - Object, such as of Cluster.Secret: one object and its content.
//   - ObjectInformers: the same for other kinds of Kubernetes, such as a Service.
//   - Trigger, also of Clients.CRD: one object of any kind, without its content.
//   - Clients.Informers: all objects of a kind, only if their names are not known.
//   - Cluster.Config, Cluster.HostedControlPlanes: objects of OpenShift, whose values are checked.
//   - Cluster.Operator: the ClusterCSIDriver, by a oneHandlerInformer. DelayStatus is a view of it
//     for controllers of many objects.
//   - Signal: no object. Code of this process notifies it.
//
// Poll calls a controller at times, not on events.
package cluster

import (
	"context"
	"fmt"
	"path"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// Clients contains the clients and informers for one API server.
type Clients struct {
	Kube     kubernetes.Interface
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
	// ObjectInformers are those of objects whose name is known. New sets these two fields.
	ObjectInformers *ObjectInformers
	// Informers contains, for the guest side, "" for objects without a namespace; standalone also
	// Namespaces.UserConfig.
	Informers v1helpers.KubeInformersForNamespaces

	triggers []*Trigger
}

// start starts the informers and triggers that have been requested. They get the context itself,
// because each watch would need one more goroutine for a channel.
func (c *Clients) start(ctx context.Context) {
	c.ObjectInformers.Start(ctx)
	for namespace := range c.Informers.Namespaces() {
		c.Informers.InformersFor(namespace).StartWithContext(ctx)
	}
	for _, trigger := range c.triggers {
		go trigger.RunWithContext(ctx)
	}
}

// May returns whether the operator has a permission. To ask is better than to try: clusters alert
// on requests that the API server refuses.
func (c *Clients) May(ctx context.Context, do authorizationv1.ResourceAttributes) (bool, error) {
	review, err := c.Kube.AuthorizationV1().SelfSubjectAccessReviews().
		Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &do},
		}, metav1.CreateOptions{})
	return err == nil && review.Status.Allowed, err
}

// Cluster contains everything that a driver and its companion drivers need of the clusters that
// they run in. Nothing runs before Start.
type Cluster struct {
	Flavour    flavour.Flavour
	Namespaces flavour.Namespaces
	// Labels are those of every object that the operator creates without an asset.
	Labels map[string]string
	// Operator reads and writes the driver's object on the guest side: its ClusterCSIDriver, or on
	// Kubernetes one of our kinds. It returns checked values only.
	Operator v1helpers.OperatorClientWithFinalizers
	// Object is the kind and the name of the object for messages.
	Object string
	// Config lists the config.openshift.io objects of the guest side. It returns checked values only.
	Config *guest.Config
	// HostedControlPlanes watches Namespaces.ControlPlane, which should contain one
	// HostedControlPlane; nil if standalone.
	HostedControlPlanes *HostedControlPlaneInformer
	// Configured is what the controllers of Configuring have completed, and RolledOut what those of
	// workloads have, so everything.
	Configured, RolledOut Completion

	controlPlane, guest *Clients
	// starts contains the functions that start informers.
	starts []func(context.Context)
}

type informerFactory interface {
	Start(stop <-chan struct{})
}

// New returns a Cluster of the clients of both sides, which are the same clients if standalone. It
// adds their informers. The caller must set Operator and Config.
func New(f flavour.Flavour, n flavour.Namespaces, controlPlane, guest *Clients) *Cluster {
	namespaces := []string{""}
	if !f.Hosted() {
		namespaces = append(namespaces, n.UserConfig)
	}
	guest.addInformers(namespaces...)
	c := &Cluster{
		Flavour: f, Namespaces: n, controlPlane: controlPlane, guest: guest,
		starts: []func(context.Context){guest.start},
	}
	if controlPlane != guest {
		controlPlane.addInformers()
		c.starts = append(c.starts, controlPlane.start)
	}
	if f.Hosted() {
		c.HostedControlPlanes = newHostedControlPlanes(controlPlane.Dynamic, n.ControlPlane)
		c.AddInformerFactory(c.HostedControlPlanes)
	}
	return c
}

// Side returns the clients of a side.
func (c *Cluster) Side(side flavour.Side) *Clients {
	if side == flavour.ControlPlane {
		return c.controlPlane
	}
	return c.guest
}

// Start starts all informers that have been requested.
func (c *Cluster) Start(ctx context.Context) {
	for _, start := range c.starts {
		start(ctx)
	}
}

// AddInformerFactory adds an informer factory that Start starts.
func (c *Cluster) AddInformerFactory(f informerFactory) {
	c.starts = append(c.starts, func(ctx context.Context) { f.Start(ctx.Done()) })
}

// Options configure Connect.
type Options struct {
	// ControlPlane and Guest are for the API servers of the two sides. They are equal if standalone.
	ControlPlane, Guest *rest.Config
	Flavour             flavour.Flavour
	Namespaces          flavour.Namespaces
	// Kind is the kind of the object that configures the operator, and Driver its name.
	Kind   schema.GroupVersionKind
	Driver string
	Clock  clock.PassiveClock
}

// Connect creates clients and informers. It sends nothing.
func Connect(o Options) (*Cluster, error) {
	guestSide, err := newClients(o.Guest)
	if err != nil {
		return nil, fmt.Errorf("creating clients of the guest side: %w", err)
	}
	controlPlane := guestSide
	if o.Flavour.Hosted() {
		if controlPlane, err = newClients(o.ControlPlane); err != nil {
			return nil, fmt.Errorf("creating clients of the management cluster: %w", err)
		}
	}
	c := New(o.Flavour, o.Namespaces, controlPlane, guestSide)
	c.Config = guest.NewConfig(guestSide.Dynamic, c.guestSuffix())
	if !o.Flavour.HasConfig() {
		c.Config = guest.NewStaticConfig(func() (string, error) {
			return guest.RecordedClusterID(c.Operator.Informer().GetStore(), o.Driver, c.Object)
		})
	}
	c.AddInformerFactory(c.Config)
	c.Object = o.Kind.Kind + " " + o.Driver + c.guestSuffix()
	return c, c.addOperatorClient(o)
}

func newClients(config *rest.Config) (*Clients, error) {
	proto := rest.CopyConfig(config)
	proto.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	proto.ContentType = "application/vnd.kubernetes.protobuf"
	kube, err := kubernetes.NewForConfig(proto)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Clients{Kube: kube, Dynamic: dyn, Metadata: meta}, nil
}

func (c *Clients) addInformers(namespaces ...string) {
	c.ObjectInformers = &ObjectInformers{
		kube: c.Kube, factories: map[types.NamespacedName]informers.SharedInformerFactory{},
	}
	factories := map[string]informers.SharedInformerFactory{}
	for _, namespace := range namespaces {
		factories[namespace] = newInformers(c.Kube, namespace)
	}
	// Not a fake: library-go's name for a set of existing factories.
	c.Informers = v1helpers.NewFakeKubeInformersForNamespaces(factories)
}

// newInformers returns a factory without resync, because controllers have resync intervals.
func newInformers(
	kube kubernetes.Interface, namespace string, options ...informers.SharedInformerOption,
) informers.SharedInformerFactory {
	options = append(options, informers.WithNamespace(namespace),
		informers.WithTransform(guest.DropUnused))
	return informers.NewSharedInformerFactoryWithOptions(kube, 0, options...)
}

// Name returns the name of an object for messages. On HyperShift it contains the cluster.
func (c *Cluster) Name(side flavour.Side, kind, namespace, name string) string {
	object := kind + " " + path.Join(namespace, name)
	if c.Flavour.Hosted() && side == flavour.ControlPlane {
		return object + " of the management cluster"
	}
	return object + c.guestSuffix()
}

// guestSuffix returns the text that follows the name of an object of the guest side in messages.
func (c *Cluster) guestSuffix() string {
	if c.Flavour.Hosted() {
		return " of the guest cluster"
	}
	return ""
}
