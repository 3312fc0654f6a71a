package operator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/staticresourcecontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// staticResync is the interval of a reconcile without an event. The minute of library-go's
// controller would cost one request per object and minute.
const staticResync = 10 * time.Minute

// The names of the two controllers of static assets. Standalone, where both sides are one cluster,
// only the controller of the guest side exists, so that it applies RBAC before the objects that use
// it.
const (
	guestStaticResources        = "*GuestStaticResourcesController"
	controlPlaneStaticResources = "*ControlPlaneStaticResourcesController"
)

func (d *driver) guestStaticResources(name string) (factory.Controller, error) {
	return d.staticResources(name, flavour.Guest, d.staticAssets(flavour.Guest))
}

func (d *driver) controlPlaneStaticResources(name string) (factory.Controller, error) {
	return d.staticResources(name, flavour.ControlPlane, d.staticAssets(flavour.ControlPlane))
}

// staticAssets returns the assets for the static resources controller of a side: RBAC,
// ServiceAccounts, Services and the like, and the CSIDriver.
func (d *driver) staticAssets(side flavour.Side) []bundle.Asset {
	oneCluster := d.cluster.Side(flavour.ControlPlane) == d.cluster.Side(flavour.Guest)
	return slices.DeleteFunc(d.bundle.Assets(), func(a bundle.Asset) bool {
		static := a.Role == bundle.Static || a.Role == bundle.CSIDriver
		inGuest := oneCluster || a.Side == flavour.Guest
		return !static || inGuest != (side == flavour.Guest) || d.isTrustedCA(a)
	})
}

func (d *driver) staticResources(
	name string, side flavour.Side, assets []bundle.Asset,
) (factory.Controller, error) {
	if len(assets) == 0 {
		return nil, nil
	}
	clients := d.cluster.Side(side)
	if err := d.setFSGroupPolicy(assets); err != nil {
		return nil, err
	}
	files, read := d.assetFunc(assets)
	ports, err := d.newServicePorts(side, assets)
	if err != nil {
		return nil, err
	}
	holder := (&resourceapply.ClientHolder{}).WithKubernetes(clients.Kube).
		WithDynamicClient(clients.Dynamic)
	client := cluster.View{OperatorClientWithFinalizers: d.operator, Condition: ports.report}
	static := staticresourcecontroller.NewStaticResourceController(name, read, files, holder, client,
		d.events)
	missing := &missingRoles{
		clients: holder, read: read, events: d.events,
		roles: map[string]func() bool{}, bindings: map[string]func() bool{},
	}
	// RBAC is a prerequisite of workloads; the ports of a Service are not.
	sync := ports.before(missing.before(d.initialSyncs.track(static.Sync)))
	f := factory.New().
		WithInformers(cluster.DelayStatus(d.operator.Informer())).
		WithInformers(d.csiAddons.informers()...).
		WithSync(cluster.WhileManaged(d.operator, sync)).
		ResyncEvery(staticResync)
	if err := d.watchAssets(f, side, assets, missing); err != nil {
		return nil, err
	}
	return f.ToController(static.Name(), d.events), nil
}

// watchAssets triggers the controller when an object among the assets changes, and tells missing
// about the roles and bindings.
func (d *driver) watchAssets(
	f *factory.Factory, side flavour.Side, assets []bundle.Asset, missing *missingRoles,
) error {
	for _, asset := range assets {
		object, err := metadata(asset)
		if err != nil {
			return err
		}
		var informer factory.Informer
		if isService(object) { // servicePorts reads it, too
			services := d.cluster.Side(side).ObjectInformers.For(object.Namespace, object.Name)
			informer = services.Core().V1().Services().Informer()
		} else {
			trigger, err := d.trigger(side, object)
			if err != nil {
				return fmt.Errorf("asset %q: %w", asset.Name, err)
			}
			missing.add(object.Kind, asset.Name, trigger.Exists)
			informer = trigger
		}
		f.WithFilteredEventsInformers(nameFilter(object.Name), informer)
	}
	return nil
}

// trigger returns the trigger for an object of a side.
func (d *driver) trigger(
	side flavour.Side, object *metav1.PartialObjectMetadata,
) (*cluster.Trigger, error) {
	clients := d.cluster.Side(side)
	if object.Namespace == "" && clients.Informers.InformersFor("") == nil {
		return nil, errors.New("the object has no namespace: the operator can read such objects " +
			"only in the guest cluster")
	}
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return clients.Trigger(resource, object.Namespace, object.Name), nil
}

func nameFilter(name string) factory.EventFilterFunc {
	return func(obj any) bool {
		object, err := meta.Accessor(obj)
		return err != nil || object.GetName() == name // accepts tombstones, which have no name
	}
}

// setFSGroupPolicy sets the policy of the driver plugin in the CSIDriver among the assets.
func (d *driver) setFSGroupPolicy(assets []bundle.Asset) error {
	policy := d.components.FSGroupPolicy
	for i, asset := range assets {
		if policy == "" || asset.Role != bundle.CSIDriver {
			continue
		}
		object, err := decode[storagev1.CSIDriver](asset)
		if err != nil {
			return err
		}
		object.Spec.FSGroupPolicy = &policy
		if assets[i].Data, err = yaml.Marshal(object); err != nil {
			return fmt.Errorf("changing asset %q: %w", asset.Name, err)
		}
	}
	return nil
}

// assetFunc returns the names of the assets, and a function that reads an asset by name. While
// CSI-Addons is active it reads the assets that replace others.
func (d *driver) assetFunc(assets []bundle.Asset) ([]string, resourceapply.AssetFunc) {
	var files []string
	data := map[string][]byte{}
	for _, asset := range assets {
		files = append(files, asset.Name)
		data[asset.Name] = asset.Data
	}
	return files, func(name string) ([]byte, error) {
		if other := d.csiAddons.instead(name); other != nil {
			return other, nil
		}
		if text, ok := data[name]; ok {
			return text, nil
		}
		return nil, fmt.Errorf("no asset %q", name)
	}
}
