package hook

import (
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

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
	content func() any
	// keep means that content is nil while the content of the pods must not change. The workload keeps
	// its hash, and keep copies from the deployed pods what belongs to the hash.
	keep func(pod, deployed *corev1.PodSpec)
	// use adds the object to the pods, unless the asset does so. annotations belong to the workload.
	use func(pod *corev1.PodSpec, annotations map[string]string) error
	// omit removes the object from the pods until it exists, unless they need it to start.
	omit func(pod *corev1.PodSpec)
}

// SecretHash rolls the workload out when the content of the Secret changes. A workload starts
// without a missing Secret, and rolls out when the Secret is created. A Secret that is deleted
// later causes no rollout until it exists again with other content.
func SecretHash(c *cluster.Cluster, side flavour.Side, name string) Workload {
	secret := c.Secret(side, c.Namespaces.On(side), name)
	content := func() any {
		if found := secret.Get(); found != nil {
			return found.Data
		}
		return nil
	}
	return Workload{
		Informers:     []factory.Informer{secret.Informer},
		RolloutInputs: []RolloutInput{{Kind: "Secret", Name: name, content: content}},
	}
}

// AcceptedHash is SecretHash for a Secret whose content the pods get from elsewhere, after a test.
// content returns the data that the pods are to use, nil while they must not change. Meanwhile keep
// copies what belongs to the data from the deployed pods.
func AcceptedHash(
	name string, content func() any, keep func(pod, deployed *corev1.PodSpec),
	informers ...factory.Informer,
) Workload {
	return Workload{
		Informers:     informers,
		RolloutInputs: []RolloutInput{{Kind: "Secret", Name: name, content: content, keep: keep}},
	}
}

// ConfigMapHash is SecretHash for a ConfigMap.
func ConfigMapHash(c *cluster.Cluster, side flavour.Side, name string) Workload {
	configMap := c.ConfigMap(side, c.Namespaces.On(side), name)
	content := func() any {
		switch found := configMap.Get(); {
		case found == nil:
			return nil
		case found.Data == nil:
			return map[string]string{}
		default:
			return found.Data
		}
	}
	return Workload{
		Informers:     []factory.Informer{configMap.Informer},
		RolloutInputs: []RolloutInput{{Kind: "ConfigMap", Name: name, content: content}},
	}
}

// TrustedCAKey is the key to which the cluster network operator writes the trusted CA bundle.
const TrustedCAKey = "ca-bundle.crt"

// TrustedCABundle mounts the trusted CA bundle into the containers that the annotation
// config.openshift.io/inject-proxy-cabundle names, and rolls the workload out when the bundle
// changes. It mounts nothing until the cluster network operator has written the bundle.
func TrustedCABundle(c *cluster.Cluster, side flavour.Side, name string) Workload {
	w := ConfigMapHash(c, side, name)
	input := &w.RolloutInputs[0]
	all := input.content
	input.content = func() any {
		data, _ := all().(map[string]string)
		if _, injected := data[TrustedCAKey]; !injected {
			return nil
		}
		return data
	}
	input.use = func(pod *corev1.PodSpec, annotations map[string]string) error {
		containers := strings.Split(annotations["config.openshift.io/inject-proxy-cabundle"], ",")
		return v1helpers.InjectTrustedCAIntoContainers(pod, name, containers)
	}
	return w
}

// ObservedProxy sets the proxy variables of the cluster in the containers that the annotation
// config.openshift.io/inject-proxy names. The variables are in spec.observedConfig of the
// ClusterCSIDriver, whose events repeat every hook.
func ObservedProxy() Workload {
	deployment := controllerservice.WithObservedProxyDeploymentHook()
	daemonSet := nodeservice.WithObservedProxyDaemonSetHook()
	literal := Pods(makeProxyLiteral)
	return Workload{
		Deployment: func(spec *opv1.OperatorSpec, d *appsv1.Deployment) error {
			return errors.Join(deployment(spec, d), literal.Deployment(spec, d))
		},
		DaemonSet: func(spec *opv1.OperatorSpec, d *appsv1.DaemonSet) error {
			return errors.Join(daemonSet(spec, d), literal.DaemonSet(spec, d))
		},
	}
}

// makeProxyLiteral changes the variables that library-go has added.
func makeProxyLiteral(pod *corev1.PodSpec) error {
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for _, c := range containers {
			for i := range c.Env {
				if strings.HasSuffix(c.Env[i].Name, "_PROXY") {
					c.Env[i].Value = literal(c.Env[i].Value)
				}
			}
		}
	}
	return nil
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
