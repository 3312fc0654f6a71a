package assets_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		delete(missing, object.GetKind()+" "+object.GetName())
		if object.GetKind() == "Deployment" {
			labels, _, _ := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata",
				"labels")
			want := map[string]string{
				"app.kubernetes.io/name": "csi-addons", "control-plane": "controller-manager",
			}
			if diff := cmp.Diff(want, labels); diff != "" {
				t.Errorf("labels of the pods (-want +got):\n%s", diff)
			}
		}
		if object.GetKind() != "Service" {
			continue
		}
		var service corev1.Service
		convert(t, object, &service)
		want := []corev1.ServicePort{
			{Name: "https", Port: 8443, TargetPort: intstr.FromString("metrics")},
		}
		if diff := cmp.Diff(want, service.Spec.Ports); diff != "" {
			t.Errorf("ports of the Service (-want +got):\n%s", diff)
		}
	}
	if len(missing) > 0 {
		t.Errorf("objects are missing: %v", missing)
	}
}
