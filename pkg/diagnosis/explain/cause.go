package explain

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// cause returns what differs between two pod templates of a workload.
func cause(workload metav1.Object, before, now *corev1.PodTemplateSpec) string {
	var changed []string
	inputs := diagnosis.ParseInputs(workload.GetAnnotations()[diagnosis.InputsAnnotation])
	for _, input := range slices.Sorted(maps.Keys(inputs)) {
		kind, name, _ := strings.Cut(input, "/")
		key := diagnosis.InputAnnotation(workload.GetNamespace(), kind, name)
		if before.Annotations[key] != now.Annotations[key] {
			changed = append(changed, input)
		}
	}
	if len(changed) > 0 {
		return strings.Join(changed, " and ") + " changed"
	}
	earlier := map[string]string{}
	for _, c := range slices.Concat(before.Spec.InitContainers, before.Spec.Containers) {
		earlier[c.Name] = c.Image
	}
	for _, c := range slices.Concat(now.Spec.InitContainers, now.Spec.Containers) {
		if image, found := earlier[c.Name]; !found || image != c.Image {
			changed = append(changed, c.Name)
		}
	}
	if len(changed) > 0 {
		return "the image of " + strings.Join(changed, ", ") + " changed"
	}
	return "the pod template changed"
}
