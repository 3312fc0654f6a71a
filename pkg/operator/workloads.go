package operator

import (
	"fmt"
	"slices"

	appslisters "k8s.io/client-go/listers/apps/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	nodeservice "github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"
	"github.com/openshift/library-go/pkg/operator/deploymentcontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
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
	asset, found, err := d.only(bundle.ControllerWorkload, flavour.ControlPlane)
	if err != nil || !found {
		return nil, err
	}
	object, err := metadata(asset)
	if err != nil {
		return nil, err
	}
	clients := d.cluster.Side(flavour.ControlPlane)
	deployments := clients.Named.For(object.Namespace, object.Name).Apps().V1().Deployments()
	hooks, err := d.controllerHooks(deployments.Lister())
	if err != nil {
		return nil, err
	}
	changes, informers := hook.DeploymentHooks(hooks)
	// It is what library-go's controller for CSI drivers is made of. That one takes a cluster ID as it is.
	return deploymentcontroller.NewDeploymentController(
		d.conditionName("ControllerServiceController"),
		asset.Data,
		d.events,
		d.cluster.Workloads(d.operator, string(d.Name)),
		clients.Kube,
		deployments,
		informers,
		hook.Manifest(d.cluster),
		changes...,
	), nil
}

func (d *driver) nodeService() (factory.Controller, error) {
	asset, found, err := d.only(bundle.NodeWorkload, flavour.Guest)
	if err != nil || !found {
		return nil, err
	}
	object, err := metadata(asset)
	if err != nil {
		return nil, err
	}
	clients := d.cluster.Side(flavour.Guest)
	daemonSets := clients.Named.For(object.Namespace, object.Name).Apps().V1().DaemonSets()
	hooks, err := d.nodeHooks(daemonSets.Lister())
	if err != nil {
		return nil, err
	}
	changes, informers := hook.DaemonSetHooks(hooks)
	return nodeservice.NewCSIDriverNodeServiceController(
		d.conditionName("NodeServiceController"),
		asset.Data,
		d.events,
		d.cluster.Workloads(d.operator, string(d.Name)),
		clients.Kube,
		daemonSets,
		informers,
		changes...,
	), nil
}

// controllerHooks have the driver's own last: they win.
func (d *driver) controllerHooks(deployments appslisters.DeploymentLister) ([]hook.Workload, error) {
	certificates, err := d.certificateHooks()
	hooks := slices.Concat(d.controlPlaneHooks(deployments), d.trustedCAHooks(flavour.ControlPlane), certificates, d.components.ControllerHooks)
	return append(hooks, hook.RollOutDeployment(d.key, deployments, d.events, hooks)), err
}

// nodeHooks are the same for nodes. The certificates are not in the cluster of the nodes where that is another one.
func (d *driver) nodeHooks(daemonSets appslisters.DaemonSetLister) ([]hook.Workload, error) {
	hooks := append([]hook.Workload{hook.ObservedProxy()}, d.trustedCAHooks(flavour.Guest)...)
	if d.cluster.Flavour == flavour.Standalone {
		certificates, err := d.certificateHooks()
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, certificates...)
	}
	hooks = append(hooks, d.components.NodeHooks...)
	return append(hooks, hook.RollOutDaemonSet(d.key, daemonSets, d.events, hooks)), nil
}

// controlPlaneHooks fit the Deployment to where it runs.
func (d *driver) controlPlaneHooks(deployments appslisters.DeploymentLister) []hook.Workload {
	if d.cluster.Flavour == flavour.HyperShift {
		return []hook.Workload{
			{Informers: []factory.Informer{d.cluster.Config.Infrastructures.Informer()}}, // for the cluster ID in the manifest
			hook.HostedControlPlane(d.cluster),
			hook.Proxy(d.settings.Proxy),
			hook.RunAsUser(d.settings.RunAsUser),
			hook.Release(d.cluster, deployments, d.operatorName, d.settings.ReleaseVersion),
		}
	}
	return []hook.Workload{hook.Topology(d.cluster), hook.ObservedProxy()}
}

func (d *driver) trustedCAHooks(side flavour.Side) []hook.Workload {
	if d.trustedCA == "" {
		return nil
	}
	return []hook.Workload{hook.TrustedCABundle(d.cluster, side, d.trustedCA)}
}

// certificateHooks roll out what serves metrics, for it reads its certificate once.
func (d *driver) certificateHooks() ([]hook.Workload, error) {
	certificates, err := d.servingCertificates()
	var hooks []hook.Workload
	for _, secret := range certificates {
		hooks = append(hooks, hook.SecretHash(d.cluster, flavour.ControlPlane, secret))
	}
	return hooks, err
}

// only returns the one asset of a role; a driver may lack it.
func (d *driver) only(role bundle.Role, side flavour.Side) (bundle.Asset, bool, error) {
	switch assets := d.bundle.Select(role, side); len(assets) {
	case 0:
		return bundle.Asset{}, false, nil
	case 1:
		return assets[0], true, nil
	default:
		return bundle.Asset{}, false, fmt.Errorf("driver %q has %d assets of role %q, want one at most", d.ConditionPrefix, len(assets), role)
	}
}
