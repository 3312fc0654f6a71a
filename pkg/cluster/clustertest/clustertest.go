// Package clustertest makes a cluster.Cluster of fake clients, whose informers are real. Its callers are the tests of the
// packages that work with a cluster.
package clustertest

import (
	"fmt"
	"testing"

	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"

	opv1 "github.com/openshift/api/operator/v1"
	configfake "github.com/openshift/client-go/config/clientset/versioned/fake"
	configinformers "github.com/openshift/client-go/config/informers/externalversions"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Seed is what a Fake holds at first. Its zero value is an empty standalone cluster.
type Seed struct {
	// Flavour defaults to standalone.
	Flavour flavour.Flavour
	// OperatorNamespace and DriverNamespace go to cluster.Place.
	OperatorNamespace, DriverNamespace string
	// ClusterCSIDriver is the operator's. nil is none in the cache, which counts as Managed.
	ClusterCSIDriver *opv1.ClusterCSIDriver
	// Guest has objects of the guest, and standalone of the only cluster; Controller those of the management cluster.
	Guest, Controller []runtime.Object
	// Config has objects of config.openshift.io.
	Config []runtime.Object
}

// Fake is a cluster of fakes.
type Fake struct {
	*cluster.Cluster
	// Guest and Controller are what Side returns, for reactors and for what was asked of them; standalone they are one.
	Guest, Controller *kubefake.Clientset
	// State is behind Cluster.Operator.
	State *Operator
}

// New makes a Fake. Nothing in it runs before Start.
func New(tb testing.TB, seed Seed) *Fake {
	tb.Helper()
	if seed.Flavour == "" {
		seed.Flavour = flavour.Standalone
	}
	placement := cluster.Place(seed.Flavour, seed.OperatorNamespace, seed.DriverNamespace)
	f := &Fake{Guest: kubefake.NewClientset(seed.Guest...)}
	guest := newClients(f.Guest, "", placement.Node, cluster.UserConfigNamespace)
	f.Controller = f.Guest
	controller := guest
	if seed.Flavour == flavour.HyperShift {
		f.Controller = kubefake.NewClientset(seed.Controller...)
		controller = newClients(f.Controller, placement.Controller)
	}
	f.Cluster = cluster.New(seed.Flavour, placement, controller, guest)
	f.Config = configinformers.NewSharedInformerFactory(configfake.NewClientset(seed.Config...), 0)
	f.AddStarter(f.Config)

	operators := dynamicinformer.NewDynamicSharedInformerFactory(guest.Dynamic, 0)
	f.State = newOperator(guest.Dynamic, operators)
	f.Operator = f.State
	f.AddStarter(operators)
	if seed.ClusterCSIDriver != nil {
		f.State.Set(tb, seed.ClusterCSIDriver)
	}
	return f
}

// Start runs the informers that have been asked for until the test ends, and waits until they have what the fakes hold.
func (f *Fake) Start(tb testing.TB) {
	tb.Helper()
	f.Cluster.Start(tb.Context())
	stop := tb.Context().Done()
	for _, side := range bundle.Sides() {
		for namespace, types := range f.Side(side).Informers.WaitForCacheSync(stop) {
			for kind, synced := range types {
				if !synced {
					tb.Fatalf("informer of %s in namespace %q has not synced", kind, namespace)
				}
			}
		}
	}
	for kind, synced := range f.Config.WaitForCacheSync(stop) {
		if !synced {
			tb.Fatalf("informer of %s has not synced", kind)
		}
	}
	f.State.sync(tb)
}

func newClients(kube *kubefake.Clientset, namespaces ...string) *cluster.Clients {
	kinds := map[schema.GroupVersionResource]string{clusterCSIDrivers(): "ClusterCSIDriverList"}
	return &cluster.Clients{
		Kube:          kube,
		Dynamic:       dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds),
		APIExtensions: apiextensionsfake.NewClientset(),
		Informers:     v1helpers.NewKubeInformersForNamespacesWithResyncPeriod(kube, 0, namespaces...),
	}
}

func clusterCSIDrivers() schema.GroupVersionResource {
	return opv1.GroupVersion.WithResource("clustercsidrivers")
}

// Writes returns the writing requests that client got, as "verb resource/name", and forgets them.
func Writes(client *kubefake.Clientset) []string {
	var writes []string
	for _, action := range client.Actions() {
		switch a := action.(type) {
		case interface{ GetObject() runtime.Object }: // create, update
			name := "?"
			if object, err := meta.Accessor(a.GetObject()); err == nil {
				name = object.GetName()
			}
			writes = append(writes, fmt.Sprintf("%s %s/%s", action.GetVerb(), action.GetResource().Resource, name))
		case interface{ GetName() string }: // get, delete, patch
			if action.GetVerb() != "get" {
				writes = append(writes, fmt.Sprintf("%s %s/%s", action.GetVerb(), action.GetResource().Resource, a.GetName()))
			}
		}
	}
	client.ClearActions()
	return writes
}
