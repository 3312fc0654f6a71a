// Package cluster connects an operator to its API servers: it has the clients and the informers of
// the two sides, which are one cluster in the standalone flavour. The hooks, the core and the
// driver plugins call it.
package cluster

import (
	"context"
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// Clients reaches one API server.
type Clients struct {
	Kube          kubernetes.Interface
	Dynamic       dynamic.Interface
	APIExtensions apiextensions.Interface
	// Named has the informers of objects whose name is known.
	ObjectInformers *ObjectInformers
	// Informers exist in the cluster of the nodes, as "", for objects without a namespace, and standalone for Namespaces.UserConfig.
	Informers v1helpers.KubeInformersForNamespaces
}

// Start starts the informers that have been asked for.
func (c *Clients) Start(stop <-chan struct{}) {
	c.ObjectInformers.Start(stop)
	c.Informers.Start(stop)
}

// Cluster is where one driver and its companions are operated. Nothing in it runs before Start.
type Cluster struct {
	Flavour    flavour.Flavour
	Namespaces flavour.Namespaces
	// Operator reads and writes the driver's ClusterCSIDriver, in the guest. What it returns is checked.
	Operator v1helpers.OperatorClientWithFinalizers
	// Config informs of the guest's config.openshift.io objects. What it returns is checked.
	Config *guest.Config
	// HostedControlPlanes informs of those in the control-plane namespace, of which there should be one; nil when standalone.
	HostedControlPlanes *HostedControlPlaneInformer

	controlPlane, guest *Clients
	informerFactories   []informerFactory
}

type informerFactory interface {
	Start(stop <-chan struct{})
}

// informerFunc starts what runs until it is stopped.
type informerFunc func(stop <-chan struct{})

func (f informerFunc) Start(stop <-chan struct{}) { go f(stop) }

// New joins the clients of the two sides, which standalone are the same. Operator and Config are the caller's to set.
func New(f flavour.Flavour, n flavour.Namespaces, controller, guest *Clients) *Cluster {
	c := &Cluster{Flavour: f, Namespaces: n, controlPlane: controller, guest: guest}
	c.AddInformerFactory(guest)
	if controller != guest {
		c.AddInformerFactory(controller)
	}
	if f == flavour.HyperShift {
		c.HostedControlPlanes = newHostedControlPlanes(controller.Dynamic, n.ControlPlane)
		c.AddInformerFactory(informerFunc(c.HostedControlPlanes.Run))
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

// Start starts all informers that have been asked for.
func (c *Cluster) Start(ctx context.Context) {
	for _, s := range c.informerFactories {
		s.Start(ctx.Done())
	}
}

// AddInformerFactory has further informer factories started with the others.
func (c *Cluster) AddInformerFactory(s informerFactory) {
	c.informerFactories = append(c.informerFactories, s)
}

// Options says which API servers to connect to, and for which driver.
type Options struct {
	// ControlPlane reaches the cluster of the driver's controllers and Guest that of its nodes. Standalone they are one.
	ControlPlane, Guest *rest.Config
	Flavour             flavour.Flavour
	Namespaces          flavour.Namespaces
	// Driver is the name of the ClusterCSIDriver.
	Driver string
	Clock  clock.PassiveClock
}

// Connect makes clients and informers. It sends nothing.
func Connect(o Options) (*Cluster, error) {
	namespaces := []string{""}
	if o.Flavour == flavour.Standalone {
		namespaces = append(namespaces, o.Namespaces.UserConfig)
	}
	served, err := newClients(o.Guest, o.Driver, namespaces...)
	if err != nil {
		return nil, fmt.Errorf("making clients of the nodes' cluster: %w", err)
	}
	controller := served
	if o.Flavour == flavour.HyperShift {
		if controller, err = newClients(o.ControlPlane, o.Driver); err != nil {
			return nil, fmt.Errorf("making clients of the management cluster: %w", err)
		}
	}
	c := New(o.Flavour, o.Namespaces, controller, served)
	c.Config = guest.NewConfig(served.Dynamic, c.place())
	c.AddInformerFactory(c.Config)
	return c, c.addOperatorClient(o)
}

func newClients(config *rest.Config, driver string, namespaces ...string) (*Clients, error) {
	json := withoutThrottle(config)
	proto := rest.CopyConfig(json)
	proto.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	proto.ContentType = "application/vnd.kubernetes.protobuf"
	kube, err := kubernetes.NewForConfig(proto)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(json)
	if err != nil {
		return nil, err
	}
	extensions, err := apiextensions.NewForConfig(json)
	if err != nil {
		return nil, err
	}
	factories := map[string]informers.SharedInformerFactory{}
	for _, namespace := range namespaces {
		factories[namespace] = newInformers(kube, namespace, informers.WithTransform(guest.DropUnused(driver)))
	}
	return &Clients{
		Kube: kube, Dynamic: dyn, APIExtensions: extensions, ObjectInformers: NewObjectInformers(kube),
		// It is no fake: library-go has this name for factories that somebody else made.
		Informers: v1helpers.NewFakeKubeInformersForNamespaces(factories),
	}, nil
}

// newInformers has no resync: it repeats work that the controllers' own intervals cover.
func newInformers(kube kubernetes.Interface, namespace string, options ...informers.SharedInformerOption) informers.SharedInformerFactory {
	options = append(options, informers.WithNamespace(namespace))
	return informers.NewSharedInformerFactoryWithOptions(kube, 0, options...)
}

// withoutManagedFields keeps out of memory what nobody asks for.
func withoutManagedFields(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
	}
	return obj, nil
}

// withoutThrottle lifts client-go's default of 5 requests a second, which makes a start take ten seconds; the API server's
// own priority and fairness protects it.
func withoutThrottle(config *rest.Config) *rest.Config {
	ret := rest.CopyConfig(config)
	ret.QPS = -1
	return ret
}
