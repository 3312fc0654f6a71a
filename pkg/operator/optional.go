package operator

import (
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/staticresourcecontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// optionalResync covers objects of kinds without an informer.
const optionalResync = time.Minute

// optionalKind is a kind of object that exists only in clusters with the capability behind it.
type optionalKind struct {
	role bundle.Role
	crd  string
	// controller is the controller's name behind the driver's prefix.
	controller string
}

func optionalKinds() []optionalKind {
	return []optionalKind{
		{bundle.SnapshotClass, "volumesnapshotclasses.snapshot.storage.k8s.io", "VolumeSnapshotClassController"},
		{bundle.ServiceMonitor, "servicemonitors.monitoring.coreos.com", "ServiceMonitorController"},
	}
}

// optional returns the controllers that keep objects while their CRD exists. An object is never deleted: with its CRD it goes
// by itself.
func (d *driver) optional() ([]factory.Controller, error) {
	var controllers []factory.Controller
	for _, kind := range optionalKinds() {
		for _, side := range flavour.Sides() {
			if assets := d.bundle.Select(kind.role, side); len(assets) > 0 {
				controller, err := d.optionalController(kind, side, assets)
				if err != nil {
					return nil, err
				}
				controllers = append(controllers, controller)
			}
		}
	}
	return controllers, nil
}

func (d *driver) optionalController(kind optionalKind, side flavour.Side, assets []bundle.Asset) (factory.Controller, error) {
	clients := d.cluster.Side(side)
	crds := apiextensionsinformers.NewSharedInformerFactoryWithOptions(clients.APIExtensions, 0,
		apiextensionsinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, kind.crd).String()
		}),
		apiextensionsinformers.WithTransform(guest.Only(kind.crd, withoutSchema)))
	d.cluster.AddStarter(crds)
	crd := crds.Apiextensions().V1().CustomResourceDefinitions()
	files, read := assetFunc(assets)
	static := staticresourcecontroller.NewStaticResourceController(d.conditionName(kind.controller), read, nil,
		(&resourceapply.ClientHolder{}).WithDynamicClient(clients.Dynamic), d.operator, d.events).
		WithConditionalResources(read, files, func() bool { return established(crd.Lister(), kind.crd) }, never).
		// The CRD may go between the look and the call.
		WithIgnoreNotFoundOnCreate()
	sync, err := withClassNames(assets, static.Sync)
	if err != nil {
		return nil, err
	}
	return factory.New().WithInformers(d.operator.Informer(), crd.Informer()).
		WithSync(d.whileManaged(sync)).
		ResyncEvery(optionalResync).
		ToController(static.Name(), d.events), nil
}

func never() bool { return false }

func established(lister apiextensionslisters.CustomResourceDefinitionLister, name string) bool {
	crd, err := lister.Get(name)
	if err != nil || crd.DeletionTimestamp != nil {
		return false // it stays established until its objects are gone, but takes no new ones
	}
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// withoutSchema keeps a CRD's schema, the bulk of it, out of memory.
func withoutSchema(obj any) (any, error) {
	if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
		crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{}
		crd.ManagedFields = nil
	}
	return obj, nil
}
