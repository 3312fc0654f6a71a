package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// pod returns a pod with containers.
func pod(name string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "driver", Name: name}}
	for _, container := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: container})
	}
	return p
}

// sidecar returns the CSIAddonsNode of a pod.
func sidecar(pod, driver string, state v1alpha1.CSIAddonsNodeState) *v1alpha1.CSIAddonsNode {
	node := &v1alpha1.CSIAddonsNode{ObjectMeta: metav1.ObjectMeta{
		Namespace: "driver", Name: "of-" + pod,
	}}
	node.Spec.Driver.Name, node.Spec.Driver.EndPoint = driver, "pod://"+pod+".driver:9070"
	node.Status.State = state
	return node
}

func TestCSIAddonsIsReadyWhenAllSidecarsAreConnected(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: csiAddonsNamespace, Name: csiAddonsDeployment,
	}}
	source := Source{
		operators: []fixtures.Operator{
			{Driver: "a", ClusterCSIDriver: "a.example", OperandNamespace: "driver"},
			{Driver: "b", ClusterCSIDriver: "b.example", OperandNamespace: "other"},
		},
		cluster: fake.NewClientset(deployment, pod("old", "driver"),
			pod("node", "driver", csiAddonsSidecar), pod("controller", "driver", csiAddonsSidecar)),
		csiAddons: clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(
			sidecar("controller", "a.example", v1alpha1.CSIAddonsNodeConnected),
			sidecar("node", "a.example", v1alpha1.CSIAddonsNodeRetrying),
			sidecar("other", "c.example", v1alpha1.CSIAddonsNodeConnected),
		).Build(),
	}
	var got State
	if err := got.addCSIAddons(t.Context(), &source); err != nil {
		t.Fatal(err)
	}
	want := State{
		Addons: []string{
			"Deployment csi-addons-controller-manager 0/1",
			"CSIAddonsNode of-controller Connected",
			"CSIAddonsNode of-node Retrying",
		},
		Missing: []string{
			"no pod of Deployment csi-addons-controller-manager is ready",
			"no connection to the sidecar of CSI-Addons in pod node",
			"no pod of b.example has a connected sidecar of CSI-Addons",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}
