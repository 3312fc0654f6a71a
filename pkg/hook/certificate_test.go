package hook_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// Only OpenShift creates the Secret.
func TestMissingCertificateIsRemovedFromThePods(t *testing.T) {
	t.Parallel()
	certificate := corev1.VolumeMount{Name: "cert", MountPath: "/etc/tls/private"}
	socket := corev1.VolumeMount{Name: "socket", MountPath: "/csi"}
	volume := func(name, secret string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret},
		}}
	}
	given := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: guest, Name: "driver"}}
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
		hash    string // of the pods in the cluster
		want    *appsv1.Deployment
	}{
		"missing": {nil, "", without},
		"exists":  {[]runtime.Object{existing}, "", given},
		"deleted": {nil, "x", given},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clustertest.New(t, clustertest.Seed{DriverNamespace: "openshift-x", Guest: test.objects})
			h := hook.OptionalCertificate(f.Cluster, flavour.ControlPlane, "serving-cert")
			current := given.DeepCopy()
			current.Spec.Template.Annotations = map[string]string{
				dependency + "openshift-x.serving-cert.secret": test.hash,
			}
			deployments := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			assert.NilError(t, deployments.Add(current))
			var key hook.Key
			key.Set([]byte(strings.Repeat("k", hook.KeySize)))
			f.Start(t)
			got := applied(t, hook.RollOutDeployment(&key, appslisters.NewDeploymentLister(deployments),
				events.NewInMemoryRecorder("test", clock.RealClock{}), []hook.Workload{h}), given)
			assert.Check(t, is.DeepEqual(test.want.Spec.Template.Spec, got.Spec.Template.Spec), "pods")
		})
	}
}
