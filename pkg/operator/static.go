package operator

import (
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/resource/resourceread"
	"github.com/openshift/library-go/pkg/operator/staticresourcecontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// staticResync repeats what events bring about at once. library-go's own minute would cost a request an object and minute.
const staticResync = 10 * time.Minute

// static returns the controllers that keep a driver's static assets: RBAC, service accounts, services and the like, and the
// CSIDriver. Where both sides are one cluster it is one controller, so that rights are there before who uses them.
func (d *driver) static() ([]factory.Controller, error) {
	var controllers []factory.Controller
	for _, group := range d.staticGroups() {
		if len(group.assets) == 0 {
			continue
		}
		controller, err := d.staticController(group)
		if err != nil {
			return nil, err
		}
		controllers = append(controllers, controller)
	}
	return controllers, nil
}

// staticGroup is the static assets of one cluster.
type staticGroup struct {
	name   string
	side   flavour.Side
	assets []bundle.Asset
}

func (d *driver) staticGroups() []staticGroup {
	guest := staticGroup{name: "GuestStaticResourcesController", side: flavour.Guest}
	control := staticGroup{name: "ControlPlaneStaticResourcesController", side: flavour.ControlPlane}
	oneCluster := d.cluster.Side(flavour.ControlPlane) == d.cluster.Side(flavour.Guest)
	for _, asset := range d.gatedAssets() {
		switch {
		case asset.Role != bundle.Static && asset.Role != bundle.CSIDriver:
		case asset.Side == flavour.Guest || oneCluster:
			guest.assets = append(guest.assets, asset)
		default:
			control.assets = append(control.assets, asset)
		}
	}
	return []staticGroup{guest, control}
}

func (d *driver) staticController(group staticGroup) (factory.Controller, error) {
	clients := d.cluster.Side(group.side)
	assets, err := d.withCSIDriverHooks(group.assets)
	if err != nil {
		return nil, err
	}
	name := d.conditionName(group.name)
	files, read := assetFunc(assets)
	ports, err := d.newServicePorts(group.side, assets)
	if err != nil {
		return nil, err
	}
	static := staticresourcecontroller.NewStaticResourceController(name, read, files,
		(&resourceapply.ClientHolder{}).WithKubernetes(clients.Kube).WithDynamicClient(clients.Dynamic),
		ports, d.events)
	// Workloads wait for RBAC and the like, not for the ports of a Service.
	sync := d.whileManaged(ports.before(d.applied.after(static.Sync)))
	f := factory.New().WithInformers(d.operator.Informer()).WithSync(sync).ResyncEvery(staticResync)
	if err := d.watchStatic(f, group.side, assets); err != nil {
		return nil, err
	}
	return f.ToController(static.Name(), d.events), nil
}

// watchStatic has the objects' own informers wake the controller.
func (d *driver) watchStatic(f *factory.Factory, side flavour.Side, assets []bundle.Asset) error {
	clients := d.cluster.Side(side)
	names := map[factory.Informer]sets.Set[string]{}
	for _, asset := range assets {
		obj, err := resourceread.ReadGenericWithUnstructured(asset.Data)
		if err != nil {
			return fmt.Errorf("decoding asset %q: %w", asset.Name, err)
		}
		object, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("reading metadata of asset %q: %w", asset.Name, err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(obj.GetObjectKind().GroupVersionKind())
		if object.GetNamespace() == "" && clients.Informers.InformersFor("") == nil {
			return fmt.Errorf("asset %q has no namespace: of such objects the operator may see only those in the cluster of the nodes", asset.Name)
		}
		informer, err := clients.Named.For(object.GetNamespace(), object.GetName()).ForResource(resource)
		if err != nil {
			return fmt.Errorf("watching the kind of asset %q: %w", asset.Name, err)
		}
		if names[informer.Informer()] == nil {
			names[informer.Informer()] = sets.New[string]()
		}
		names[informer.Informer()].Insert(object.GetName())
	}
	for informer, ours := range names {
		f.WithFilteredEventsInformers(named(ours), informer)
	}
	return nil
}

// named lets the events of some objects pass.
func named(names sets.Set[string]) factory.EventFilterFunc {
	return func(obj any) bool {
		object, err := meta.Accessor(obj)
		return err != nil || names.Has(object.GetName()) // a tombstone passes: better a sync too many
	}
}

// withCSIDriverHooks applies the driver's CSIDriver hooks to the assets of that role.
func (d *driver) withCSIDriverHooks(assets []bundle.Asset) ([]bundle.Asset, error) {
	ret := make([]bundle.Asset, 0, len(assets))
	for _, asset := range assets {
		if asset.Role == bundle.CSIDriver && len(d.components.CSIDriverHooks) > 0 {
			changed, err := d.changeCSIDriver(asset.Data)
			if err != nil {
				return nil, fmt.Errorf("changing asset %q: %w", asset.Name, err)
			}
			asset.Data = changed
		}
		ret = append(ret, asset)
	}
	return ret, nil
}

func (d *driver) changeCSIDriver(text []byte) ([]byte, error) {
	var obj storagev1.CSIDriver
	if err := yaml.UnmarshalStrict(text, &obj); err != nil {
		return nil, err
	}
	for _, change := range d.components.CSIDriverHooks {
		if err := change(&obj); err != nil {
			return nil, err
		}
	}
	return yaml.Marshal(obj)
}

// assetFunc gives assets the form in which library-go asks for them.
func assetFunc(assets []bundle.Asset) ([]string, resourceapply.AssetFunc) {
	var files []string
	data := map[string][]byte{}
	for _, asset := range assets {
		files = append(files, asset.Name)
		data[asset.Name] = asset.Data
	}
	return files, func(name string) ([]byte, error) {
		if text, ok := data[name]; ok {
			return text, nil
		}
		return nil, fmt.Errorf("no asset %q", name)
	}
}
