package operator

import (
	"regexp"
	"time"

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
	crd := clients.CRD("servicemonitors.monitoring.coreos.com")
	informers := append(d.csiAddons.informers(), crd,
		cluster.DelayStatus(d.operator.Informer()))
	static := staticresourcecontroller.NewStaticResourceController(name, read, nil,
		(&resourceapply.ClientHolder{}).WithDynamicClient(clients.Dynamic), d.operator, d.events).
		WithConditionalResources(read, files, crd.Exists, never).
		// The API server may not serve the CRD yet or any more.
		WithIgnoreNotFoundOnCreate()
	if len(operatorFiles) > 0 {
		service, exists := d.metricsService(clients)
		informers = append(informers, service)
		static = static.WithConditionalResources(readOperator, operatorFiles,
			func() bool { return crd.Exists() && exists() }, never)
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
