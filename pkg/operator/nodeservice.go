package operator

import (
	"github.com/openshift/library-go/pkg/controller/factory"
	nodeservice "github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// nodeService returns the controller of the DaemonSet with the driver's node plugin.
func (d *driver) nodeService(name string) (factory.Controller, error) {
	asset, object, err := d.workload(bundle.NodeWorkload, flavour.Guest)
	if err != nil || object == nil {
		return nil, err
	}
	clients := d.cluster.Side(flavour.Guest)
	daemonSets := clients.ObjectInformers.For(object.Namespace, object.Name).Apps().V1().DaemonSets()
	hooks, err := d.nodeHooks(daemonSets.Lister())
	if err != nil {
		return nil, err
	}
	changes, informers := hook.DaemonSetHooks(hooks)
	return nodeservice.NewCSIDriverNodeServiceController(
		name,
		asset.Data,
		d.events,
		d.cluster.Workloads(d.operator, string(d.Name)),
		clients.Kube,
		daemonSets,
		informers,
		changes...,
	), nil
}
