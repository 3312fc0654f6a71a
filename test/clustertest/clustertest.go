// Package clustertest returns a cluster.Cluster with fake clients and real informers. Its callers
// are the tests of packages that use pkg/cluster.
package clustertest

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// Seed is the initial content of a Fake. Its zero value is an empty standalone cluster.
type Seed struct {
	// Flavour defaults to standalone.
	Flavour flavour.Flavour
	// OperatorNamespace and DriverNamespace are the arguments of Flavour.Namespaces.
	OperatorNamespace, DriverNamespace string
	// ClusterCSIDriver is the operator's ClusterCSIDriver. nil means none, which counts as Managed.
	ClusterCSIDriver *opv1.ClusterCSIDriver
	// Spec is, instead, the spec of the operator's object on Kubernetes, in YAML.
	Spec string
	// Guest contains the objects of the guest side, ControlPlane of the management cluster.
	Guest, ControlPlane []runtime.Object
	// HostedControlPlanes contains the HostedControlPlanes of the management cluster.
	HostedControlPlanes []*cluster.HostedControlPlane
	// Config contains objects of config.openshift.io.
	Config []runtime.Object
}

// Fake is a cluster with fake clients.
type Fake struct {
	*cluster.Cluster
	// Guest and ControlPlane are the clients of the sides. They are equal if standalone.
	Guest, ControlPlane *kubefake.Clientset
	// State is the client of Cluster.Operator.
	State *Operator
}

// New returns a Fake. Nothing runs before Start.
func New(tb testing.TB, seed Seed) *Fake {
	tb.Helper()
	if seed.Flavour == "" {
		seed.Flavour = flavour.Standalone
	}
	namespaces := seed.Flavour.Namespaces(seed.OperatorNamespace, seed.DriverNamespace)
	f := &Fake{Guest: kubefake.NewClientset(seed.Guest...)}
	guestSide := newClients(f.Guest)
	f.ControlPlane = f.Guest
	controller := guestSide
	if seed.Flavour == flavour.HyperShift {
		f.ControlPlane = kubefake.NewClientset(seed.ControlPlane...)
		controller = newClients(f.ControlPlane)
	}
	for _, hosted := range seed.HostedControlPlanes {
		put(tb, controller.Dynamic, cluster.HostedControlPlanes(), hosted)
	}
	f.Cluster = cluster.New(seed.Flavour, namespaces, controller, guestSide)
	for _, object := range seed.Config {
		kind := reflect.TypeOf(object).Elem().Name()
		put(tb, guestSide.Dynamic, configResource(kind), object)
	}
	f.Config = guest.NewConfig(guestSide.Dynamic, "")
	if !seed.Flavour.HasConfig() {
		f.Config = guest.NewStaticConfig(func() (string, error) { return "kubernetes", nil })
	}
	f.AddInformerFactory(f.Config)

	operators := dynamicinformer.NewDynamicSharedInformerFactory(guestSide.Dynamic, 0)
	f.State = newOperator(guestSide.Dynamic, operators)
	f.Operator, f.Object = f.State, "ClusterCSIDriver"
	f.AddInformerFactory(operators)
	if seed.ClusterCSIDriver != nil {
		f.Object += " " + seed.ClusterCSIDriver.Name
		f.State.Set(tb, seed.ClusterCSIDriver)
	}
	if seed.Spec != "" {
		f.State.SetSpec(tb, seed.Spec)
	}
	return f
}

// Start runs the requested informers until the test ends. It waits until they have synced, and
// watch the objects of both sides.
func (f *Fake) Start(tb testing.TB) {
	tb.Helper()
	f.Cluster.Start(tb.Context())
	stop := tb.Context().Done()
	for _, side := range flavour.Sides() {
		for namespace, types := range f.Side(side).Informers.WaitForCacheSync(stop) {
			for kind, synced := range types {
				assert.Assert(tb, synced, "informer of %s in namespace %q has not synced", kind, namespace)
			}
		}
		for object, types := range f.Side(side).ObjectInformers.WaitForCacheSync(stop) {
			for kind, synced := range types {
				assert.Assert(tb, synced, "informer of %s %s has not synced", kind, object)
			}
		}
	}
	assert.Assert(tb, f.Config.Proxies == nil || cache.WaitForCacheSync(stop,
		f.Config.Infrastructures.Informer().HasSynced, f.Config.APIServers.Informer().HasSynced,
		f.Config.Proxies.Informer().HasSynced), "informers of config.openshift.io have not synced")
	if f.HostedControlPlanes != nil && !cache.WaitForCacheSync(stop, f.HostedControlPlanes.HasSynced) {
		tb.Fatal("informer of HostedControlPlanes has not synced")
	}
	awaitWatches(tb, f.Guest)
	awaitWatches(tb, f.ControlPlane)
	f.State.sync(tb)
}

// awaitWatches waits until informers watch all that they have listed. An informer has synced before
// it watches, and a watch of the fake client does not deliver earlier deletions.
func awaitWatches(tb testing.TB, client *kubefake.Clientset) {
	tb.Helper()
	var unwatched sets.Set[string]
	err := wait.PollUntilContextTimeout(tb.Context(), time.Millisecond, syncTimeout, true,
		func(context.Context) (bool, error) {
			listed, watched := sets.New[string](), sets.New[string]()
			for _, action := range client.Actions() {
				selects := action.GetResource().Resource + " in " + action.GetNamespace() + " "
				switch a := action.(type) {
				case clienttesting.ListAction:
					listed.Insert(selects + a.GetListRestrictions().Fields.String())
				case clienttesting.WatchAction:
					watched.Insert(selects + a.GetWatchRestrictions().Fields.String())
				}
			}
			unwatched = listed.Difference(watched)
			return unwatched.Len() == 0, nil
		})
	if err != nil {
		tb.Fatalf("waiting for watches of %v: %v", sets.List(unwatched), err)
	}
}

// configResource returns the resource of a kind of config.openshift.io.
func configResource(kind string) schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(configv1.GroupVersion.WithKind(kind))
	return resource
}

// put creates or replaces an object of a resource whose kind is the name of its type.
func put(
	tb testing.TB, client dynamic.Interface, resource schema.GroupVersionResource, object any,
) {
	tb.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	assert.NilError(tb, err)
	wanted := &unstructured.Unstructured{Object: content}
	kind := reflect.TypeOf(object).Elem().Name()
	wanted.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	api := client.Resource(resource).Namespace(wanted.GetNamespace())
	_, err = api.Create(tb.Context(), wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = api.Update(tb.Context(), wanted, metav1.UpdateOptions{})
	}
	assert.NilError(tb, err)
}

func newClients(kube *kubefake.Clientset) *cluster.Clients {
	kinds := map[schema.GroupVersionResource]string{
		clusterCSIDrivers():              "ClusterCSIDriverList",
		cluster.HostedControlPlanes():    "HostedControlPlaneList",
		configResource("Infrastructure"): "InfrastructureList",
		configResource("APIServer"):      "APIServerList",
		configResource("Proxy"):          "ProxyList",
	}
	return &cluster.Clients{
		Kube:     kube,
		Dynamic:  dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds),
		Metadata: newMetadata(kube),
	}
}

func clusterCSIDrivers() schema.GroupVersionResource {
	return opv1.GroupVersion.WithResource("clustercsidrivers")
}

// Writes returns the writes to the guest side, and then those to another cluster of the control
// plane, like the function Writes.
func (f *Fake) Writes() []string {
	writes := Writes(f.Guest)
	if f.ControlPlane != f.Guest {
		writes = append(writes, Writes(f.ControlPlane)...)
	}
	return writes
}

// Writes returns the writes that client received, as "verb resource/name", and clears them. It
// ignores dry runs.
func Writes(client *kubefake.Clientset) []string {
	var writes []string
	for _, action := range client.Actions() {
		if create, ok := action.(clienttesting.CreateActionImpl); ok &&
			len(create.CreateOptions.DryRun) > 0 {
			continue
		}
		var name string
		switch a := action.(type) {
		case interface{ GetObject() runtime.Object }: // create, update
			object, err := meta.Accessor(a.GetObject())
			if name = "?"; err == nil {
				name = object.GetName()
			}
		case interface{ GetName() string }: // get, delete, patch
			name = a.GetName()
		}
		if verb := action.GetVerb(); name != "" && verb != "get" {
			writes = append(writes, fmt.Sprintf("%s %s/%s", verb, action.GetResource().Resource, name))
		}
	}
	client.ClearActions()
	return writes
}
