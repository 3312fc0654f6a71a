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

// RolloutInput is an object whose changes roll a workload out.
type RolloutInput struct {
	// Kind and Name of the object. It is in the namespace of the workload.
	Kind, Name string
	// content returns the part of the cached object that is hashed, nil if the object is missing.
	content func() (any, error)
	// hold returns true while a workload keeps the hash of earlier content; nil means never.
	hold func() bool
	// use adds the object to the pods, unless the asset does so. annotations belong to the workload.
	use func(pod *corev1.PodSpec, annotations map[string]string) error
}

// SecretHash rolls the workload out when the content of the Secret changes. A workload starts
// without a missing Secret, and rolls out when the Secret is created. A Secret that is deleted
// later causes no rollout until it exists again with other content.
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

// Acceptance decides when pods may use credentials. pkg/credential implements it.
type Acceptance interface {
	// Holds returns true while pods with other credentials must keep them.
	Holds(*corev1.Secret) bool
	// Informer triggers a sync when the result of Holds may change.
	Informer() factory.Informer
}

// CredentialsHash is SecretHash for a credentials Secret. Its changes roll the workload out after
// they are accepted.
func CredentialsHash(
	c *cluster.Cluster, side flavour.Side, name string, accepted Acceptance,
) Workload {
	namespace := c.Namespaces.On(side)
	informers := c.Side(side).ObjectInformers.For(namespace, name).Core().V1()
	secrets := informers.Secrets().Lister().Secrets(namespace)
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

// trustedCAKey is the key to which the cluster network operator writes the trusted CA bundle.
const trustedCAKey = "ca-bundle.crt"

// TrustedCABundle mounts the trusted CA bundle into the containers that the annotation
// config.openshift.io/inject-proxy-cabundle names, and rolls the workload out when the bundle
// changes. It mounts nothing until the cluster network operator has written the bundle into the
// ConfigMap.
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
func dataOf(
	configMaps coreinformers.ConfigMapInformer, namespace, name string,
) (map[string]string, error) {
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

// ObservedProxy sets the proxy variables of the cluster in the containers that the annotation
// config.openshift.io/inject-proxy names. The variables are in spec.observedConfig of the
// ClusterCSIDriver, whose events repeat every hook.
func ObservedProxy() Workload {
	return Workload{
		Deployment: controllerservice.WithObservedProxyDeploymentHook(),
		DaemonSet:  nodeservice.WithObservedProxyDaemonSetHook(),
	}
}

// Topology sets two replicas if the control plane of the cluster is highly available, else one. It
// removes the node selector if the control plane is external.
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

// FSGroupPolicy sets the policy of the CSIDriver, unless policy is "".
func FSGroupPolicy(policy storagev1.FSGroupPolicy) CSIDriver {
	return func(driver *storagev1.CSIDriver) error {
		if policy != "" {
			driver.Spec.FSGroupPolicy = &policy
		}
		return nil
	}
}
