package hook

import (
	storagev1 "k8s.io/api/storage/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	controllerservice "github.com/openshift/library-go/pkg/operator/csi/csidrivercontrollerservicecontroller"
	nodeservice "github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
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

// Replicas sets the Deployment's replicas by the cluster's control plane topology: two when it is highly available, else one.
func Replicas(c *cluster.Cluster) Workload {
	return Workload{
		Deployment: controllerservice.WithReplicasHook(c.Config),
		Informers:  []factory.Informer{c.Config.Config().V1().Infrastructures().Informer()},
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
