package hook

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// OptionalCertificate removes the serving certificate of the metrics from the pods of a Deployment
// while its Secret does not exist. kube-rbac-proxy then makes its own certificate. When the Secret
// is created, the hook SecretHash for the same Secret triggers a rollout.
func OptionalCertificate(c *cluster.Cluster, secret string) Workload {
	const side = flavour.ControlPlane
	object := c.Secret(side, c.Namespaces.On(side), secret)
	return Workload{Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
		if object.Get() == nil {
			removeCertificate(&d.Spec.Template.Spec, secret)
		}
		return nil
	}}
}

func removeCertificate(pod *corev1.PodSpec, secret string) {
	isCertificate := func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == secret
	}
	removed := map[string]bool{}
	for _, volume := range pod.Volumes {
		removed[volume.Name] = isCertificate(volume)
	}
	pod.Volumes = slices.DeleteFunc(pod.Volumes, isCertificate)
	for i := range pod.Containers {
		c := &pod.Containers[i]
		mounts := len(c.VolumeMounts)
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return removed[m.Name]
		})
		if len(c.VolumeMounts) < mounts {
			c.Args = slices.DeleteFunc(c.Args, func(arg string) bool {
				return strings.HasPrefix(arg, "--tls-cert-file=") ||
					strings.HasPrefix(arg, "--tls-private-key-file=")
			})
		}
	}
}
