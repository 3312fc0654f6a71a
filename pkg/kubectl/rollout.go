package kubectl

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// cause returns what differs between two pod templates of a workload. An upgrade changes images,
// and the hashes of inputs as well if the earlier release computed them in another way.
func cause(workload metav1.Object, before, now *corev1.PodTemplateSpec) string {
	var causes []string
	if images := changedImages(before.Spec, now.Spec); len(images) > 0 {
		causes = append(causes, "the image of "+strings.Join(images, ", ")+" changed")
	}
	if inputs := changedInputs(workload, before, now); len(inputs) > 0 {
		causes = append(causes, strings.Join(inputs, " and ")+" changed")
	}
	return cmp.Or(strings.Join(causes, ", and "), "the pod template changed")
}

// changedImages returns the containers that are new or have another image.
func changedImages(before, now corev1.PodSpec) (changed []string) {
	earlier := map[string]string{}
	for _, c := range slices.Concat(before.InitContainers, before.Containers) {
		earlier[c.Name] = c.Image
	}
	for _, c := range slices.Concat(now.InitContainers, now.Containers) {
		if image, found := earlier[c.Name]; !found || image != c.Image {
			changed = append(changed, c.Name)
		}
	}
	return changed
}

// changedInputs returns the rollout inputs, such as secret/name, whose hashes differ.
func changedInputs(
	workload metav1.Object, before, now *corev1.PodTemplateSpec,
) (changed []string) {
	inputs := diagnosis.ParseInputs(workload.GetAnnotations()[diagnosis.InputsAnnotation])
	for _, input := range slices.Sorted(maps.Keys(inputs)) {
		kind, name, _ := strings.Cut(input, "/")
		key := diagnosis.InputAnnotation(workload.GetNamespace(), kind, name)
		if before.Annotations[key] != now.Annotations[key] {
			changed = append(changed, input)
		}
	}
	return changed
}
