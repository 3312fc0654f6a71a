package hook

import (
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	controllerservice "github.com/openshift/library-go/pkg/operator/csi/csidrivercontrollerservicecontroller"
	nodeservice "github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// SecretHash rolls the workload out when the Secret's content changes. A Secret that is not there is tolerated; its arrival
// is a change.
func SecretHash(c *cluster.Cluster, side bundle.Side, name string) Workload {
	namespace := c.Placement.Namespace(side)
	secrets := c.Side(side).Named.For(namespace, name).Core().V1().Secrets()
	return Workload{
		Deployment: controllerservice.WithSecretHashAnnotationHook(namespace, name, secrets),
		DaemonSet:  nodeservice.WithSecretHashAnnotationHook(namespace, name, secrets),
		Informers:  []factory.Informer{secrets.Informer()},
		Inputs:     []Input{secretInput(secrets.Lister(), namespace, name)},
	}
}

// ConfigMapHash rolls the workload out when the ConfigMap's content changes. A ConfigMap that is not there is tolerated; its
// arrival is a change.
func ConfigMapHash(c *cluster.Cluster, side bundle.Side, name string) Workload {
	namespace := c.Placement.Namespace(side)
	configMaps := c.Side(side).Named.For(namespace, name).Core().V1().ConfigMaps()
	return Workload{
		Deployment: controllerservice.WithConfigMapHashAnnotationHook(namespace, name, configMaps),
		DaemonSet:  nodeservice.WithConfigMapHashAnnotationHook(namespace, name, configMaps),
		Informers:  []factory.Informer{configMaps.Informer()},
		Inputs:     []Input{configMapInput(configMaps.Lister(), namespace, name)},
	}
}

// TrustedCABundle mounts the bundle of CAs that the cluster trusts into the containers that the annotation
// config.openshift.io/inject-proxy-cabundle names, and rolls the workload out when it changes. The bundle is in the ConfigMap
// called name once the cluster network operator has put it there; until then nothing is mounted.
func TrustedCABundle(c *cluster.Cluster, side bundle.Side, name string) Workload {
	namespace := c.Placement.Namespace(side)
	configMaps := c.Side(side).Named.For(namespace, name).Core().V1().ConfigMaps()
	return Workload{
		Deployment: controllerservice.WithCABundleDeploymentHook(namespace, name, configMaps),
		DaemonSet:  nodeservice.WithCABundleDaemonSetHook(namespace, name, configMaps),
		Informers:  []factory.Informer{configMaps.Informer()},
		Inputs:     []Input{configMapInput(configMaps.Lister(), namespace, name)},
	}
}

// ObservedProxy gives the cluster's proxy variables to the containers that the annotation config.openshift.io/inject-proxy
// names. The proxy is observed into the ClusterCSIDriver, whose events repeat every hook.
func ObservedProxy() Workload {
	return Workload{
		Deployment: controllerservice.WithObservedProxyDeploymentHook(),
		DaemonSet:  nodeservice.WithObservedProxyDaemonSetHook(),
	}
}

// Topology fits the Deployment to the cluster's control plane: two replicas when it is highly available, else one; and no choice of
// nodes when it is elsewhere.
func Topology(c *cluster.Cluster) Workload {
	return Workload{
		Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
			infrastructure, err := c.Config.Infrastructures.Get(guest.ConfigName)
			if err != nil {
				return err
			}
			replicas := int32(1)
			if infrastructure.Status.ControlPlaneTopology == configv1.HighlyAvailableTopologyMode {
				replicas = 2
			}
			if infrastructure.Status.ControlPlaneTopology == configv1.ExternalTopologyMode {
				d.Spec.Template.Spec.NodeSelector = map[string]string{}
			}
			d.Spec.Replicas = &replicas
			return nil
		},
		Informers: []factory.Informer{c.Config.Infrastructures.Informer()},
	}
}

// FSGroupPolicy replaces the policy of the CSIDriver by the one that the administrator chose; "" leaves it.
func FSGroupPolicy(policy storagev1.FSGroupPolicy) CSIDriver {
	return func(driver *storagev1.CSIDriver) error {
		if policy != "" {
			driver.Spec.FSGroupPolicy = &policy
		}
		return nil
	}
}
