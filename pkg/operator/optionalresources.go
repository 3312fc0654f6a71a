package operator

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// serviceMonitor returns the controller that applies the ServiceMonitors while their CRD exists:
// that of the driver, and that of the operator while the Service with the metrics of the operator
// exists. cluster-storage-operator creates this Service since OpenShift 4.22. The controller never
// deletes a ServiceMonitor: Kubernetes deletes it together with its CRD.
func (d *driver) serviceMonitor(name string) (factory.Controller, error) {
	assets := d.bundle.Select(bundle.ServiceMonitor, flavour.ControlPlane)
	operatorAssets := d.bundle.Select(bundle.OperatorMonitor, flavour.ControlPlane)
	if len(assets)+len(operatorAssets) == 0 {
		return nil, nil
	}
	clients := d.cluster.Side(flavour.ControlPlane)
	crd := clients.CRD("servicemonitors.monitoring.coreos.com")
	informers := append(d.csiAddons.informers(), crd,
		cluster.DelayStatus(d.operator.Informer()))
	s := d.newStaticObjects(name, flavour.ControlPlane)
	s.optional = true
	s.read = d.labelled(d.assetFunc(slices.Concat(assets, operatorAssets)))
	for _, asset := range assets {
		s.objects = append(s.objects, staticObject{asset: asset.Name, wanted: crd.Exists})
	}
	if len(operatorAssets) > 0 {
		service := clients.Trigger(corev1.SchemeGroupVersion.WithResource("services"),
			d.cluster.Namespaces.Operator, d.operatorName+"-metrics")
		informers = append(informers, service)
		for _, asset := range operatorAssets {
			s.objects = append(s.objects, staticObject{
				asset: asset.Name, wanted: func() bool { return crd.Exists() && service.Exists() },
			})
		}
	}
	sync := func(ctx context.Context, syncCtx factory.SyncContext) error {
		return s.report(ctx, s.apply(ctx, syncCtx))
	}
	return factory.New().
		WithInformers(informers...).
		WithSync(cluster.WhileManaged(d.operator, sync)).
		ResyncEvery(staticResync).
		ToController(s.instance(), d.events), nil
}

// labelled adds the administrator's labels to ServiceMonitors, by which Prometheus may select them.
func (d *driver) labelled(read resourceapply.AssetFunc) resourceapply.AssetFunc {
	if len(d.settings.MonitorLabels) == 0 {
		return read
	}
	return func(name string) ([]byte, error) {
		text, err := read(name)
		monitor := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(text, &monitor.Object)
		}
		if err != nil {
			return nil, err
		}
		monitor.SetLabels(labels.Merge(d.settings.MonitorLabels, monitor.GetLabels()))
		return yaml.Marshal(monitor.Object)
	}
}
