package operator

import (
	"cmp"
	"context"
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

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// staticResync is the interval of a reconcile without an event. It sends a request per object.
const staticResync = 10 * time.Minute

// inlineProfileLabel says in which namespaces of OpenShift pods may use inline volumes of a driver.
const inlineProfileLabel = "security.openshift.io/csi-ephemeral-volume-profile"

// The names of the two controllers of static assets. Standalone, where both sides are one cluster,
// only the controller of the guest side exists, so that RBAC precedes the objects that use it.
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
		return !static || inGuest != (side == flavour.Guest) ||
			d.trustedCA != nil && d.trustedCA.asset.Name == a.Name
	})
}

func (d *driver) staticResources(
	name string, side flavour.Side, assets []bundle.Asset,
) (factory.Controller, error) {
	if len(assets) == 0 {
		return nil, nil
	}
	s := d.newStaticObjects(name, side)
	s.read = d.assetFunc(assets)
	informers := d.csiAddons.informers()
	if informers == nil {
		informers = d.choices.Informers()
	}
	f := factory.New().
		WithInformers(cluster.DelayStatus(d.operator.Informer())).
		WithInformers(informers...).
		ResyncEvery(staticResync)
	for _, asset := range assets {
		object, informer, err := s.watched(side, asset)
		if err != nil {
			return nil, err
		}
		s.objects = append(s.objects, object)
		f.WithInformers(informer)
	}
	// RBAC is a prerequisite of workloads; the ports of a Service are not.
	apply := d.initialSyncs.track(s.apply)
	sync := func(ctx context.Context, syncCtx factory.SyncContext) error {
		return s.report(ctx, errors.Join(s.repairPorts(ctx), apply(ctx, syncCtx)))
	}
	return f.WithSync(d.cluster.Configuring(sync)).ToController(s.instance(), d.events), nil
}

// watched returns the object of an asset, and the informer that reports its changes.
func (s *staticObjects) watched(
	side flavour.Side, asset bundle.Asset,
) (staticObject, factory.Informer, error) {
	object, err := metadata(asset)
	if err != nil {
		return staticObject{}, nil, err
	}
	o := staticObject{asset: asset.Name, kind: object.Kind, name: object.Name}
	if asset.Role == bundle.CSIDriver { // the defaults could replace it while the choices are invalid
		o.wanted = func() bool { _, err := s.choices.Current(); return err == nil }
	}
	if object.APIVersion == "v1" && object.Kind == "Service" { // repairPorts reads it, too
		services := s.cluster.Side(side).ObjectInformers.For(object.Namespace, object.Name).
			Core().V1().Services()
		o.service = services.Lister().Services(object.Namespace)
		return o, services.Informer(), nil
	}
	clients := s.cluster.Side(side)
	if object.Namespace == "" && clients.Informers.InformersFor("") == nil {
		return o, nil, fmt.Errorf("asset %q: the object has no namespace: the operator can read such "+
			"objects only in the guest cluster", asset.Name)
	}
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return o, clients.Trigger(resource, object.Namespace, object.Name), nil
}

// chosenCSIDriver returns the CSIDriver with what the administrator has chosen.
func (d *driver) chosenCSIDriver(asset bundle.Asset) ([]byte, error) {
	chosen := d.choices.Config().CSIDriver
	policy := cmp.Or(d.components.FSGroupPolicy, storagev1.FSGroupPolicy(chosen.FSGroupPolicy))
	object, err := decode[storagev1.CSIDriver](asset)
	if err != nil {
		return nil, err
	}
	if policy != "" {
		object.Spec.FSGroupPolicy = &policy
	}
	object.Spec.SELinuxMount = cmp.Or(chosen.SELinuxMount, object.Spec.SELinuxMount)
	if chosen.Modes != nil {
		object.Spec.VolumeLifecycleModes = nil
	}
	for _, mode := range chosen.Modes {
		object.Spec.VolumeLifecycleModes = append(object.Spec.VolumeLifecycleModes,
			storagev1.VolumeLifecycleMode(mode))
		if mode == string(storagev1.VolumeLifecycleEphemeral) {
			// library-go requires the label; without it OpenShift assumes the same.
			metav1.SetMetaDataLabel(&object.ObjectMeta, inlineProfileLabel, "privileged")
		}
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("changing asset %q: %w", asset.Name, err)
	}
	return text, nil
}

// assetFunc returns a function that reads an asset by name. While CSI-Addons is active it reads the
// assets that replace others.
func (d *driver) assetFunc(assets []bundle.Asset) resourceapply.AssetFunc {
	known := map[string]bundle.Asset{}
	for _, asset := range assets {
		known[asset.Name] = asset
	}
	return func(name string) ([]byte, error) {
		if other := d.csiAddons.instead(name); other != nil {
			return other, nil
		}
		switch asset, ok := known[name]; {
		case !ok:
			return nil, fmt.Errorf("no asset %q", name)
		case asset.Role == bundle.CSIDriver:
			return d.chosenCSIDriver(asset)
		default:
			return asset.Data, nil
		}
	}
}
