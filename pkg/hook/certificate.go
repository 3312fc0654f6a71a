package hook

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// Certificate is SecretHash for the serving certificate of the metrics. If the volume is optional,
// it removes the certificate from the pods until the Secret exists: kube-rbac-proxy makes its own.
func Certificate(c *cluster.Cluster, side flavour.Side, name string) Workload {
	w := SecretHash(c, side, name)
	w.RolloutInputs[0].omit = func(pod *corev1.PodSpec) { removeCertificate(pod, name) }
	return w
}

func removeCertificate(pod *corev1.PodSpec, secret string) {
	isCertificate := func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == secret &&
			ptr.Deref(v.Secret.Optional, false)
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
