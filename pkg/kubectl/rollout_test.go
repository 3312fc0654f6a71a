package kubectl

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

func TestCauseOfARolloutIsEverythingThatChanged(t *testing.T) {
	t.Parallel()
	workload := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Annotations: map[string]string{diagnosis.InputsAnnotation: "secret/s=2"},
	}}
	template := func(hash string, images ...string) *corev1.PodTemplateSpec {
		pod := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{diagnosis.InputAnnotation("a", "secret", "s"): hash},
		}}
		for i, image := range images {
			pod.Spec.Containers = append(pod.Spec.Containers,
				corev1.Container{Name: []string{"driver", "sidecar"}[i], Image: image})
		}
		return pod
	}
	for name, test := range map[string]struct {
		before, now *corev1.PodTemplateSpec
		want        string
	}{
		"rotation": {template("1", "v1"), template("2", "v1"), "secret/s changed"},
		"image":    {template("2", "v1"), template("2", "v2"), "the image of driver changed"},
		"upgrade": {
			template("1", "v1"), template("2", "v2", "v2"),
			"the image of driver, sidecar changed, and secret/s changed",
		},
		"something else": {template("2", "v1"), template("2", "v1"), "the pod template changed"},
	} {
		if got := cause(workload, test.before, test.now); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
