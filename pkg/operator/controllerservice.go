package operator

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/deploymentcontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// controllerService returns the controller of the Deployment with the driver's controllers. It is
// library-go's controller of Deployments. library-go's controller for CSI drivers, which contains
// it, does not check the cluster ID.
func (d *driver) controllerService(name string) (factory.Controller, error) {
	asset, object, err := d.workload(bundle.ControllerWorkload, flavour.ControlPlane)
	if err != nil || object == nil {
		return nil, err
	}
	clients := d.cluster.Side(flavour.ControlPlane)
	deployments := clients.ObjectInformers.For(object.Namespace, object.Name).Apps().V1().Deployments()
	hooks, err := d.controllerHooks(asset.Name, deployments.Lister())
	if err != nil {
		return nil, err
	}
	changes, informers := hook.DeploymentHooks(hooks)
	client := d.workloadClient(name, clients, func() metav1.Object {
		if found, err := deployments.Lister().Deployments(object.Namespace).Get(object.Name); err == nil {
			return found
		}
		return nil
	})
	return deploymentcontroller.NewDeploymentController(name, asset.Data, d.events, client,
		clients.Kube, deployments, informers, hook.Manifest(d.cluster, d.leaderElection()),
		changes...), nil
}
