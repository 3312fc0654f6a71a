package hook

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// HostedControlPlane configures the pods of the Deployment like the other pods of the hosted
// control plane. Without exactly one HostedControlPlane it returns an error: the Deployment stays.
func HostedControlPlane(c *cluster.Cluster) Workload {
	return Workload{
		Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
			hosted, err := c.HostedControlPlane()
			if err != nil {
				return err
			}
			template := &d.Spec.Template
			template.Spec.NodeSelector = maps.Clone(hosted.Spec.NodeSelector)
			addTolerations(&template.Spec, hosted.Spec.Tolerations)
			// Existing labels have precedence, because the selector of the Deployment and network policies
			// depend on them.
			template.Labels = labels.Merge(hosted.Spec.Labels, template.Labels)
			setReplicas(d, hosted.Spec.ControllerAvailabilityPolicy)
			return nil
		},
		Informers: []factory.Informer{c.HostedControlPlanes},
	}
}

func addTolerations(spec *corev1.PodSpec, tolerations []corev1.Toleration) {
	for _, t := range tolerations {
		known := func(other corev1.Toleration) bool { return equality.Semantic.DeepEqual(t, other) }
		if !slices.ContainsFunc(spec.Tolerations, known) {
			spec.Tolerations = append(spec.Tolerations, t)
		}
	}
}

// setReplicas sets two replicas on two nodes if the control plane is highly available. A preference
// for different nodes does not suffice: the preference for nodes with the many other pods of the
// control plane outweighs it.
func setReplicas(d *appsv1.Deployment, policy cluster.AvailabilityPolicy) {
	replicas := int32(1)
	if policy == cluster.HighlyAvailable {
		replicas = 2
		requireAntiAffinity(d.Spec.Template.Spec.Affinity)
	}
	d.Spec.Replicas = &replicas
}

func requireAntiAffinity(affinity *corev1.Affinity) {
	if affinity == nil || affinity.PodAntiAffinity == nil {
		return
	}
	anti := affinity.PodAntiAffinity
	required := anti.RequiredDuringSchedulingIgnoredDuringExecution
	for _, preferred := range anti.PreferredDuringSchedulingIgnoredDuringExecution {
		required = append(required, preferred.PodAffinityTerm)
	}
	anti.RequiredDuringSchedulingIgnoredDuringExecution = required
	anti.PreferredDuringSchedulingIgnoredDuringExecution = nil
}

// Proxy sets the variables in all containers. The control plane uses the proxy of the management
// cluster, which is in the operator's environment; the observed proxy is for the guest cluster.
func Proxy(variables []corev1.EnvVar) Workload {
	return Pods(func(pod *corev1.PodSpec) error {
		for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
			for i := range containers {
				setEnv(&containers[i], variables)
			}
		}
		return nil
	})
}

func setEnv(c *corev1.Container, variables []corev1.EnvVar) {
	for _, v := range variables {
		v.Value = literal(v.Value)
		c.Env = slices.DeleteFunc(c.Env, func(other corev1.EnvVar) bool { return other.Name == v.Name })
		c.Env = append(c.Env, v)
	}
}

// literal returns the text of an environment variable that Kubernetes expands to the value. It
// expands $(NAME), and turns $$ into $.
func literal(value string) string { return strings.ReplaceAll(value, "$", "$$") }

// RunAsUser sets the user ID of the pods, for clusters that do not assign one; nil sets none.
func RunAsUser(id *int64) Workload {
	return Workload{Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
		if pod := &d.Spec.Template.Spec; id != nil {
			pod.SecurityContext = cmp.Or(pod.SecurityContext, &corev1.PodSecurityContext{})
			pod.SecurityContext.RunAsUser = id
		}
		return nil
	}}
}
