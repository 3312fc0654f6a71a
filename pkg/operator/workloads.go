package operator

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	nodeservice "github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"
	"github.com/openshift/library-go/pkg/operator/deploymentcontroller"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

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
	deployed := d.cluster.Deployment(flavour.ControlPlane, object.Namespace, object.Name).Get
	hooks, err := d.controllerHooks(asset.Name, deployed)
	if err != nil {
		return nil, err
	}
	changes, informers := hook.DeploymentHooks(hooks)
	client, reasons := d.workloadClient(name, clients, func() metav1.Object {
		if found := deployed(); found != nil {
			return found
		}
		return nil
	})
	reasons.object = d.cluster.Name(flavour.ControlPlane, "Deployment", object.Namespace, object.Name)
	inner := deploymentcontroller.NewDeploymentController(name, asset.Data, d.events, client,
		clients.Kube, deployments, nil, hook.Manifest(d.cluster), changes...)
	return d.workloadController(inner, factory.ControllerInstanceName(name, "Deployment"), reasons,
		client, append(informers, deployments.Informer())), nil
}

func (d *driver) nodeService(name string) (factory.Controller, error) {
	asset, object, err := d.workload(bundle.NodeWorkload, flavour.Guest)
	if err != nil || object == nil {
		return nil, err
	}
	clients := d.cluster.Side(flavour.Guest)
	daemonSets := clients.ObjectInformers.For(object.Namespace, object.Name).Apps().V1().DaemonSets()
	deployed := d.cluster.DaemonSet(flavour.Guest, object.Namespace, object.Name).Get
	hooks, err := d.nodeHooks(asset.Name, deployed)
	if err != nil {
		return nil, err
	}
	changes, informers := hook.DaemonSetHooks(hooks)
	client, reasons := d.workloadClient(name, clients, func() metav1.Object {
		if found := deployed(); found != nil {
			return found
		}
		return nil
	})
	reasons.object = d.cluster.Name(flavour.Guest, "DaemonSet", object.Namespace, object.Name)
	inner := nodeservice.NewCSIDriverNodeServiceController(name, asset.Data, d.events, client,
		clients.Kube, daemonSets, nil, changes...)
	return d.workloadController(inner, factory.ControllerInstanceName(name, "CSIDriverNodeService"),
		reasons, client, append(informers, daemonSets.Informer())), nil
}

// unsettledResync is the time until the next sync while the pods of a workload do not run, their
// options are refused, or CSI-Addons is about to end.
const unsettledResync = time.Minute

// workloadController returns a controller of library-go that syncs a settled workload without an
// event only as often as other objects. library-go does so each minute, and reads the workload. The
// workload completes what was configured when a sync began that finds it settled.
func (d *driver) workloadController(
	inner factory.Controller, instance string, reasons *podReasons,
	client v1helpers.OperatorClient, informers []factory.Informer,
) factory.Controller {
	completes := d.cluster.RolledOut.Add()
	if d.cluster.Flavour.ReportsCompletion() {
		informers = append(informers, &d.cluster.Configured)
	}
	sync := func(ctx context.Context, syncCtx factory.SyncContext) error {
		configured := d.cluster.Configured.Lowest()
		err := d.checkPods(ctx)
		if err == nil {
			err = reasons.named(inner.Sync(ctx, syncCtx))
		}
		if err == nil && !reasons.unsettled {
			completes(configured)
		}
		if reasons.unsettled || d.csiAddons.ending() || d.pods.refuses() {
			syncCtx.Queue().AddAfter(syncCtx.QueueKey(), unsettledResync)
		}
		return err
	}
	return factory.New().
		WithControllerInstanceName(instance).
		WithInformers(d.operator.Informer()).
		WithInformers(informers...).
		WithSync(sync).
		WithSyncDegradedOnError(client).
		ResyncEvery(staticResync).
		ToController(inner.Name(), d.events)
}

// controllerHooks returns the hooks of the Deployment of an asset. The hooks of the driver plugin
// come last, so that they can override the others.
func (d *driver) controllerHooks(
	asset string, deployed func() *appsv1.Deployment,
) ([]hook.Workload, error) {
	certificates, err := d.certificateHooks()
	hooks := slices.Concat(d.csiAddons.patch(asset), d.controlPlaneHooks(deployed),
		d.trustedCAHooks(flavour.ControlPlane), certificates, d.sidecarHooks(deployed),
		[]hook.Workload{d.csiAddonsHook(), d.choices.Hook()})
	d.addController(asset, slices.Concat(hooks, d.components.ControllerHooks), deployed)
	hooks = slices.Concat(hooks, []hook.Workload{d.controllerChoicesHook()},
		d.components.ControllerHooks)
	return append(hooks, hook.RollOutDeployment(d.key, deployed, d.events, hooks)), err
}

func (d *driver) nodeHooks(
	asset string, deployed func() *appsv1.DaemonSet,
) ([]hook.Workload, error) {
	certificates, err := d.certificateHooks()
	hooks := slices.Concat(d.csiAddons.patch(asset), []hook.Workload{d.proxyHook()},
		d.trustedCAHooks(flavour.Guest), certificates,
		[]hook.Workload{d.csiAddonsHook(), d.choices.Hook()}, d.components.NodeHooks)
	d.addNodes(asset, hooks, deployed)
	hooks = append(hooks, d.nodeChoicesHook(deployed), d.configuredHook(deployed))
	return append(hooks, hook.RollOutDaemonSet(d.key, deployed, d.events, hooks)), err
}

// controlPlaneHooks returns the hooks that depend on where the Deployment runs.
func (d *driver) controlPlaneHooks(deployed func() *appsv1.Deployment) []hook.Workload {
	if d.cluster.Flavour.Hosted() {
		return []hook.Workload{
			// The manifest contains the cluster ID.
			{Informers: []factory.Informer{d.cluster.Config.Infrastructures.Informer()}},
			hook.HostedControlPlane(d.cluster),
			hook.Proxy(d.settings.Proxy),
			hook.RunAsUser(d.settings.RunAsUser),
			hook.Release(d.cluster, deployed, d.operatorName, d.settings.ReleaseVersion),
		}
	}
	return []hook.Workload{hook.Topology(d.cluster), d.proxyHook()}
}

// proxyHook returns the hook for the proxy of the cluster. If no object contains it, pods use the
// proxy of the operator.
func (d *driver) proxyHook() hook.Workload {
	if d.cluster.Config.Proxies == nil {
		return hook.Proxy(d.settings.Proxy)
	}
	return hook.ObservedProxy()
}

func (d *driver) trustedCAHooks(side flavour.Side) []hook.Workload {
	if d.trustedCA == nil {
		return nil
	}
	return []hook.Workload{hook.TrustedCABundle(d.cluster, side, d.trustedCA.name)}
}

// certificateHooks returns the hooks that roll out pods when a certificate of a metrics endpoint
// changes: the pods read it only when they start. Only OpenShift creates these certificates.
func (d *driver) certificateHooks() ([]hook.Workload, error) {
	certificates, err := d.servingCertificates()
	var hooks []hook.Workload
	for _, secret := range certificates {
		hooks = append(hooks, hook.Certificate(d.cluster, flavour.ControlPlane, secret))
	}
	return hooks, err
}

// workload returns the asset of a role and its metadata, or nil if the driver does not have one.
func (d *driver) workload(
	role bundle.Role, side flavour.Side,
) (bundle.Asset, *metav1.PartialObjectMetadata, error) {
	switch assets := d.bundle.Select(role, side); len(assets) {
	case 0:
		return bundle.Asset{}, nil, nil
	case 1:
		object, err := metadata(assets[0])
		return assets[0], object, err
	default:
		return bundle.Asset{}, nil, fmt.Errorf("driver %q has %d assets of role %q, want at most one",
			d.ConditionPrefix, len(assets), role)
	}
}
