package operator

import (
	"regexp"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/staticresourcecontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// optionalResync is the interval of a reconcile without an event. These objects have no informer,
// so each reconcile reads them.
const optionalResync = 2 * time.Minute

// serviceMonitor returns the controller that applies the ServiceMonitors while their CRD exists:
// that of the driver, and that of the operator while the Service with the metrics of the operator
// exists. cluster-storage-operator creates this Service since OpenShift 4.22. The controller never
// deletes a ServiceMonitor: Kubernetes deletes it together with its CRD.
func (d *driver) serviceMonitor(name string) (factory.Controller, error) {
	files, read := d.monitors(bundle.ServiceMonitor)
	operatorFiles, readOperator := d.monitors(bundle.OperatorMonitor)
	if len(files)+len(operatorFiles) == 0 {
		return nil, nil
	}
	clients := d.cluster.Side(flavour.ControlPlane)
	crd := watchCRD(d.cluster, flavour.ControlPlane, "servicemonitors.monitoring.coreos.com")
	informers := append(d.csiAddons.informers(), crd.Informer(),
		cluster.DelayStatus(d.operator.Informer()))
	static := staticresourcecontroller.NewStaticResourceController(name, read, nil,
		(&resourceapply.ClientHolder{}).WithDynamicClient(clients.Dynamic), d.operator, d.events).
		WithConditionalResources(read, files, crd.established, never).
		// The CRD may be deleted after this check.
		WithIgnoreNotFoundOnCreate()
	if len(operatorFiles) > 0 {
		service, exists := d.metricsService(clients)
		informers = append(informers, service)
		static = static.WithConditionalResources(readOperator, operatorFiles,
			func() bool { return crd.established() && exists() }, never)
	}
	return factory.New().
		WithInformers(informers...).
		WithSync(cluster.WhileManaged(d.operator, static.Sync)).
		ResyncEvery(optionalResync).
		ToController(static.Name(), d.events), nil
}

// monitors returns the names of the ServiceMonitors with a role, and a function that reads them.
func (d *driver) monitors(role bundle.Role) ([]string, resourceapply.AssetFunc) {
	files, read := d.assetFunc(d.bundle.Select(role, flavour.ControlPlane))
	if d.settings.ClusterID != "" {
		read = withoutServiceCA(read)
	}
	return files, read
}

// metricsService returns the informer of the Service with the operator's metrics, and a function
// that reports whether the Service exists.
func (d *driver) metricsService(clients *cluster.Clients) (factory.Informer, func() bool) {
	namespace, name := d.cluster.Namespaces.Operator, d.operatorName+"-metrics"
	services := clients.ObjectInformers.For(namespace, name).Core().V1().Services()
	return services.Informer(), func() bool {
		_, err := services.Lister().Services(namespace).Get(name)
		return err == nil // the only error of a cache is NotFound
	}
}

func never() bool { return false }

// withoutServiceCA changes ServiceMonitors for clusters that are not OpenShift. Their Prometheus
// has no file with the service CA and would not scrape. kube-rbac-proxy may make its own
// certificate, so Prometheus cannot verify it.
func withoutServiceCA(read resourceapply.AssetFunc) resourceapply.AssetFunc {
	caFile := regexp.MustCompile(`caFile: .*`)
	return func(name string) ([]byte, error) {
		text, err := read(name)
		return caFile.ReplaceAll(text, []byte("insecureSkipVerify: true")), err
	}
}

// crdInformer watches one CRD.
type crdInformer struct {
	crdinformers.CustomResourceDefinitionInformer
	name string
}

// watchCRD returns the informer of a CRD of a side, without its schema.
func watchCRD(c *cluster.Cluster, side flavour.Side, name string) crdInformer {
	crds := apiextensionsinformers.NewSharedInformerFactoryWithOptions(c.Side(side).APIExtensions, 0,
		apiextensionsinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}),
		apiextensionsinformers.WithTransform(withoutSchema))
	c.AddInformerFactory(crds)
	return crdInformer{crds.Apiextensions().V1().CustomResourceDefinitions(), name}
}

// established returns true if the API server serves the objects of the CRD.
func (i crdInformer) established() bool { return established(i.Lister(), i.name) }

func established(lister apiextensionslisters.CustomResourceDefinitionLister, name string) bool {
	crd, err := lister.Get(name)
	if err != nil || crd.DeletionTimestamp != nil {
		return false // a CRD that is being deleted stays established, but rejects new objects
	}
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// withoutSchema removes the schema of a CRD, which is the largest part of it, from the cache.
func withoutSchema(obj any) (any, error) {
	if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
		crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{}
		crd.ManagedFields = nil
	}
	return obj, nil
}
