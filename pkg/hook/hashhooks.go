package hook

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	controllerservice "github.com/openshift/library-go/pkg/operator/csi/csidrivercontrollerservicecontroller"
	nodeservice "github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// RolloutInput is an object whose content rolls a workload out when it changes.
type RolloutInput struct {
	// Kind and Name of the object; its namespace is the workload's.
	Kind, Name string
	// content returns what counts of the cached object, nil if the object is missing.
	content func() (any, error)
	// hold tells whether a workload that has another content is to keep it for now; nil is never.
	hold func() bool
	// use makes the pods use the object, if their manifest does not. annotations are the workload's.
	use func(pod *corev1.PodSpec, annotations map[string]string) error
}

// SecretHash rolls the workload out when the Secret's content changes. A workload starts without a Secret that is missing, and
// rolls out when the Secret comes. A Secret that vanishes later changes nothing until it is back with another content.
func SecretHash(c *cluster.Cluster, side flavour.Side, name string) Workload {
	namespace := c.Namespaces.On(side)
	secrets := c.Side(side).ObjectInformers.For(namespace, name).Core().V1().Secrets()
	content := func() (any, error) {
		secret, err := secrets.Lister().Secrets(namespace).Get(name)
		if err != nil {
			return nil, ignoreNotFound(err)
		}
		return secret.Data, nil
	}
	return Workload{
		Informers:     []factory.Informer{secrets.Informer()},
		RolloutInputs: []RolloutInput{{Kind: "Secret", Name: name, content: content}},
	}
}

// Acceptance tells when credentials may be used. pkg/credential has one.
type Acceptance interface {
	// Holds tells whether pods that have other credentials are to keep them for now.
	Holds(*corev1.Secret) bool
	// Informer tells when Holds may say something else.
	Informer() factory.Informer
}

// CredentialsHash is SecretHash for a Secret with credentials, whose content rolls out once it may be used.
func CredentialsHash(c *cluster.Cluster, side flavour.Side, name string, accepted Acceptance) Workload {
	namespace := c.Namespaces.On(side)
	secrets := c.Side(side).ObjectInformers.For(namespace, name).Core().V1().Secrets().Lister().Secrets(namespace)
	w := SecretHash(c, side, name)
	w.Informers = append(w.Informers, accepted.Informer())
	w.RolloutInputs[0].hold = func() bool {
		secret, err := secrets.Get(name)
		return err == nil && accepted.Holds(secret)
	}
	return w
}

// ConfigMapHash is SecretHash for a ConfigMap.
func ConfigMapHash(c *cluster.Cluster, side flavour.Side, name string) Workload {
	namespace := c.Namespaces.On(side)
	configMaps := c.Side(side).ObjectInformers.For(namespace, name).Core().V1().ConfigMaps()
	content := func() (any, error) {
		data, err := dataOf(configMaps, namespace, name)
		if err != nil || data == nil {
			return nil, err
		}
		return data, nil
	}
	return Workload{
		Informers:     []factory.Informer{configMaps.Informer()},
		RolloutInputs: []RolloutInput{{Kind: "ConfigMap", Name: name, content: content}},
	}
}

// trustedCAKey is where the cluster network operator puts the CAs that a cluster trusts.
const trustedCAKey = "ca-bundle.crt"

// TrustedCABundle mounts the bundle of CAs that the cluster trusts into the containers that the annotation
// config.openshift.io/inject-proxy-cabundle names, and rolls the workload out when it changes. The bundle is in the ConfigMap
// called name once the cluster network operator has put it there; until then nothing is mounted.
func TrustedCABundle(c *cluster.Cluster, side flavour.Side, name string) Workload {
	namespace := c.Namespaces.On(side)
	configMaps := c.Side(side).ObjectInformers.For(namespace, name).Core().V1().ConfigMaps()
	content := func() (any, error) {
		data, err := dataOf(configMaps, namespace, name)
		if _, injected := data[trustedCAKey]; err != nil || !injected {
			return nil, err
		}
		return data, nil
	}
	use := func(pod *corev1.PodSpec, annotations map[string]string) error {
		containers := strings.Split(annotations["config.openshift.io/inject-proxy-cabundle"], ",")
		return v1helpers.InjectTrustedCAIntoContainers(pod, name, containers)
	}
	return Workload{
		Informers:     []factory.Informer{configMaps.Informer()},
		RolloutInputs: []RolloutInput{{Kind: "ConfigMap", Name: name, content: content, use: use}},
	}
}

// dataOf returns the data of a cached ConfigMap, nil if the ConfigMap is missing.
func dataOf(configMaps coreinformers.ConfigMapInformer, namespace, name string) (map[string]string, error) {
	configMap, err := configMaps.Lister().ConfigMaps(namespace).Get(name)
	if err != nil {
		return nil, ignoreNotFound(err)
	}
	if configMap.Data == nil {
		return map[string]string{}, nil
	}
	return configMap.Data, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
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
