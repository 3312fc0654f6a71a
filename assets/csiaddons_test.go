package assets_test

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// Administrators of CSI-Addons bind these roles, scrape this Service by name, and admit the pods to
// sidecars by their labels. The controller of kubernetes-csi-addons has the same names and labels.
func TestObjectsOfCSIAddonsHaveTheNamesThatOthersUse(t *testing.T) {
	t.Parallel()
	missing := map[string]bool{
		"Role csi-addons-leader-election-role":                  true,
		"RoleBinding csi-addons-leader-election-rolebinding":    true,
		"ClusterRole csi-addons-proxy-role":                     true,
		"ClusterRoleBinding csi-addons-proxy-rolebinding":       true,
		"ClusterRole csi-addons-metrics-reader":                 true,
		"Service csi-addons-controller-manager-metrics-service": true,
	}
	for _, text := range kustomized(t, "csi-addons/controller") {
		object := &unstructured.Unstructured{}
		assert.NilError(t, yaml.Unmarshal([]byte(text), &object.Object))
		delete(missing, object.GetKind()+" "+object.GetName())
		if object.GetKind() == "Deployment" {
			labels, _, _ := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata",
				"labels")
			want := map[string]string{
				"app.kubernetes.io/name": "csi-addons", "control-plane": "controller-manager",
			}
			assert.Check(t, is.DeepEqual(want, labels), "labels of the pods")
		}
		if object.GetKind() != "Service" {
			continue
		}
		var service corev1.Service
		convert(t, object, &service)
		want := []corev1.ServicePort{
			{Name: "https", Port: 8443, TargetPort: intstr.FromString("metrics")},
		}
		assert.Check(t, is.DeepEqual(want, service.Spec.Ports), "ports of the Service")
	}
	assert.Check(t, len(missing) == 0, "objects are missing: %v", missing)
}
