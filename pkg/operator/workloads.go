package operator

import (
	"fmt"

	"github.com/openshift/library-go/pkg/controller/factory"
	controllerservice "github.com/openshift/library-go/pkg/operator/csi/csidrivercontrollerservicecontroller"
	nodeservice "github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// workloads returns the controllers of the driver's Deployment and DaemonSet, as far as it has them.
func (d *driver) workloads() ([]factory.Controller, error) {
	var controllers []factory.Controller
	for _, build := range []func() (factory.Controller, error){d.controllerService, d.nodeService} {
		controller, err := build()
		if err != nil {
			return nil, err
		}
		if controller != nil {
			controllers = append(controllers, controller)
		}
	}
	return controllers, nil
}

func (d *driver) controllerService() (factory.Controller, error) {
	asset, found, err := d.only(bundle.ControllerWorkload, bundle.Controller)
	if err != nil || !found {
		return nil, err
	}
	clients := d.cluster.Side(bundle.Controller)
	hooks, err := d.controllerHooks()
	if err != nil {
		return nil, err
	}
	changes, informers := hook.DeploymentHooks(hooks)
	return controllerservice.NewCSIDriverControllerServiceController(
		d.conditionName("ControllerServiceController"),
		asset.Data,
		d.events,
		d.operator,
		clients.Kube,
		clients.Informers.InformersFor(d.cluster.Placement.Controller).Apps().V1().Deployments(),
		d.cluster.Config,
		informers,
		changes...,
	), nil
}

func (d *driver) nodeService() (factory.Controller, error) {
	asset, found, err := d.only(bundle.NodeWorkload, bundle.Guest)
	if err != nil || !found {
		return nil, err
	}
	clients := d.cluster.Side(bundle.Guest)
	hooks := append(d.hooks(bundle.Guest), d.wiring.Node...)
	changes, informers := hook.DaemonSetHooks(append(hooks, hook.ExplainDaemonSet(d.cluster, d.events, hooks)))
	return nodeservice.NewCSIDriverNodeServiceController(
		d.conditionName("NodeServiceController"),
		asset.Data,
		d.events,
		d.operator,
		clients.Kube,
		clients.Informers.InformersFor(d.cluster.Placement.Node).Apps().V1().DaemonSets(),
		informers,
		changes...,
	), nil
}

// hooks are the core's own for every workload.
func (d *driver) hooks(side bundle.Side) []hook.Workload {
	hooks := []hook.Workload{hook.ObservedProxy()}
	if d.trustedCA != "" {
		hooks = append(hooks, hook.TrustedCABundle(d.cluster, side, d.trustedCA))
	}
	return hooks
}

func (d *driver) controllerHooks() ([]hook.Workload, error) {
	hooks := append([]hook.Workload{hook.Replicas(d.cluster)}, d.hooks(bundle.Controller)...)
	certificates, err := d.servingCertificates()
	for _, secret := range certificates {
		// The proxies before the metrics read their certificate once.
		hooks = append(hooks, hook.SecretHash(d.cluster, bundle.Controller, secret))
	}
	hooks = append(hooks, d.wiring.Controller...)
	return append(hooks, hook.ExplainDeployment(d.cluster, d.events, hooks)), err
}

// only returns the one asset of a role; a driver may lack it.
func (d *driver) only(role bundle.Role, side bundle.Side) (bundle.Asset, bool, error) {
	switch assets := d.bundle.Select(role, side); len(assets) {
	case 0:
		return bundle.Asset{}, false, nil
	case 1:
		return assets[0], true, nil
	default:
		return bundle.Asset{}, false, fmt.Errorf("driver %q has %d assets of role %q, want one at most", d.ConditionPrefix, len(assets), role)
	}
}
