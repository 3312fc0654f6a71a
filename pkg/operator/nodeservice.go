package operator

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	nodeservice "github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

func (d *driver) nodeService(name string) (factory.Controller, error) {
	asset, object, err := d.workload(bundle.NodeWorkload, flavour.Guest)
	if err != nil || object == nil {
		return nil, err
	}
	clients := d.cluster.Side(flavour.Guest)
	daemonSets := clients.ObjectInformers.For(object.Namespace, object.Name).Apps().V1().DaemonSets()
	hooks, err := d.nodeHooks(asset.Name, daemonSets.Lister())
	if err != nil {
		return nil, err
	}
	changes, informers := hook.DaemonSetHooks(hooks)
	client := d.workloadClient(name, clients, func() metav1.Object {
		if found, err := daemonSets.Lister().DaemonSets(object.Namespace).Get(object.Name); err == nil {
			return found
		}
		return nil
	})
	return nodeservice.NewCSIDriverNodeServiceController(name, asset.Data, d.events, client,
		clients.Kube, daemonSets, informers, changes...), nil
}
