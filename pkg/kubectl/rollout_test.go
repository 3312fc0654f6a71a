package kubectl

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
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
		assert.Check(t, is.Equal(cause(workload, test.before, test.now), test.want), name)
	}
}
