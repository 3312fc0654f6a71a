package hook

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// HostedControlPlane fits the Deployment to the other pods of its hosted control plane. Without exactly one HostedControlPlane the
// Deployment stays as it is.
func HostedControlPlane(c *cluster.Cluster) Workload {
	return Workload{
		Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
			hosted, err := c.HostedControlPlane()
			if err != nil {
				return err
			}
			template := &d.Spec.Template
			template.Spec.NodeSelector = maps.Clone(hosted.Spec.NodeSelector)
			tolerate(&template.Spec, hosted.Spec.Tolerations)
			label(template, hosted.Spec.Labels)
			replicate(d, hosted.Spec.ControllerAvailabilityPolicy)
			return nil
		},
		Informers: []factory.Informer{c.HostedControlPlanes},
	}
}

func tolerate(spec *corev1.PodSpec, tolerations []corev1.Toleration) {
	for _, t := range tolerations {
		known := func(other corev1.Toleration) bool { return equality.Semantic.DeepEqual(t, other) }
		if !slices.ContainsFunc(spec.Tolerations, known) {
			spec.Tolerations = append(spec.Tolerations, t)
		}
	}
}

// label adds labels. Those that pods have already are what the Deployment selects them by, and what network policies and others
// know them by.
func label(template *corev1.PodTemplateSpec, labels map[string]string) {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, template.Labels)
	template.Labels = all
}

// replicate has two pods, on two nodes, where the control plane is to be highly available. A preference for different nodes would
// not do: the preference for nodes with other pods of the control plane, which are many, outweighs it.
func replicate(d *appsv1.Deployment, policy cluster.AvailabilityPolicy) {
	replicas := int32(1)
	if policy == cluster.HighlyAvailable {
		replicas = 2
		requireAntiAffinity(d.Spec.Template.Spec.Affinity)
	}
	d.Spec.Replicas = &replicas
}

// requireAntiAffinity makes what the pods prefer to be apart from what they have to be.
func requireAntiAffinity(affinity *corev1.Affinity) {
	if affinity == nil || affinity.PodAntiAffinity == nil {
		return
	}
	apart := affinity.PodAntiAffinity
	for _, preferred := range apart.PreferredDuringSchedulingIgnoredDuringExecution {
		apart.RequiredDuringSchedulingIgnoredDuringExecution = append(apart.RequiredDuringSchedulingIgnoredDuringExecution, preferred.PodAffinityTerm)
	}
	apart.PreferredDuringSchedulingIgnoredDuringExecution = nil
}

// Proxy gives variables to all containers, in place of those of the same name. The control plane reaches the cloud through the
// proxy of its own cluster, which is in the operator's environment; the observed one is the guest's.
func Proxy(variables []corev1.EnvVar) Workload {
	return Workload{Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
		pod := &d.Spec.Template.Spec
		for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
			for i := range containers {
				setEnv(&containers[i], variables)
			}
		}
		return nil
	}}
}

func setEnv(c *corev1.Container, variables []corev1.EnvVar) {
	for _, v := range variables {
		c.Env = slices.DeleteFunc(c.Env, func(other corev1.EnvVar) bool { return other.Name == v.Name })
		c.Env = append(c.Env, v)
	}
}

// RunAsUser sets the user of the pods, for clusters that do not assign one; nil leaves it to the cluster.
func RunAsUser(id *int64) Workload {
	return Workload{Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
		if id == nil {
			return nil
		}
		pod := &d.Spec.Template.Spec
		if pod.SecurityContext == nil {
			pod.SecurityContext = &corev1.PodSecurityContext{}
		}
		pod.SecurityContext.RunAsUser = id
		return nil
	}}
}
