package hook_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// TestMissingCertificateIsRemovedFromThePods checks that pods start without a Secret that only
// OpenShift creates, and use it once it exists.
func TestMissingCertificateIsRemovedFromThePods(t *testing.T) {
	t.Parallel()
	certificate := corev1.VolumeMount{Name: "cert", MountPath: "/etc/tls/private"}
	socket := corev1.VolumeMount{Name: "socket", MountPath: "/csi"}
	volume := func(name, secret string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret},
		}}
	}
	given := &appsv1.Deployment{}
	given.Spec.Template.Spec = corev1.PodSpec{
		Volumes: []corev1.Volume{volume("cert", "serving-cert"), volume("socket", "another")},
		Containers: []corev1.Container{
			{Name: "proxy", VolumeMounts: []corev1.VolumeMount{certificate}, Args: []string{
				"--upstream=http://127.0.0.1:8203/", "--tls-cert-file=/etc/tls/private/tls.crt",
				"--tls-private-key-file=/etc/tls/private/tls.key", "--tls-min-version=VersionTLS12",
			}},
			{Name: "driver", VolumeMounts: []corev1.VolumeMount{socket}, Args: []string{
				"--tls-cert-file=of-another",
			}},
		},
	}
	without := given.DeepCopy()
	pod := &without.Spec.Template.Spec
	pod.Volumes = pod.Volumes[1:]
	pod.Containers[0].VolumeMounts = []corev1.VolumeMount{}
	pod.Containers[0].Args = []string{
		"--upstream=http://127.0.0.1:8203/", "--tls-min-version=VersionTLS12",
	}
	existing := secret("openshift-x", "a")
	existing.Name = "serving-cert"
	for name, test := range map[string]struct {
		objects []runtime.Object
		want    *appsv1.Deployment
	}{
		"missing": {nil, without},
		"exists":  {[]runtime.Object{existing}, given},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clustertest.New(t, clustertest.Seed{
				DriverNamespace: "openshift-x", Guest: test.objects,
			})
			h := hook.OptionalCertificate(f.Cluster, "serving-cert")
			f.Start(t)
			got := applied(t, h, given)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Deployment (-want +got):\n%s", diff)
			}
		})
	}
}
