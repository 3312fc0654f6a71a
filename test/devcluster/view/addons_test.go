package view

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// On Kubernetes all drivers are in one namespace.
func TestSidecarsOfDriversInOneNamespaceAreTold(t *testing.T) {
	t.Parallel()
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "drivers", Name: name}
	}
	objects := []runtime.Object{&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: csiAddonsNamespace, Name: csiAddonsDeployment},
		Status:     appsv1.DeploymentStatus{ReadyReplicas: 1},
	}}
	var nodes []runtime.Object
	var operators []fixtures.Operator
	for driver, state := range map[string]v1alpha1.CSIAddonsNodeState{
		"a": v1alpha1.CSIAddonsNodeConnected, "b": v1alpha1.CSIAddonsNodeFailed,
	} {
		operators = append(operators, fixtures.Operator{
			ClusterCSIDriver: driver, OperandNamespace: "drivers",
		})
		objects = append(objects, &corev1.Pod{ObjectMeta: named(driver), Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: csiAddonsSidecar}},
		}})
		endpoint := wire.Endpoint{Pod: driver, Namespace: "drivers", Port: 1}
		nodes = append(nodes, &v1alpha1.CSIAddonsNode{
			ObjectMeta: named(driver),
			Spec: v1alpha1.CSIAddonsNodeSpec{Driver: v1alpha1.CSIAddonsNodeDriver{
				Name: driver, EndPoint: endpoint.String(),
			}},
			Status: v1alpha1.CSIAddonsNodeStatus{State: state},
		})
	}
	types := runtime.NewScheme()
	assert.NilError(t, v1alpha1.AddToScheme(types))
	var got State
	assert.NilError(t, got.addCSIAddons(t.Context(), &Source{
		operators: operators, cluster: fake.NewClientset(objects...),
		csiAddons: clientfake.NewClientBuilder().WithScheme(types).WithRuntimeObjects(nodes...).Build(),
	}))
	assert.Check(t, is.DeepEqual(got.Missing, []string{
		"no pod of b has a connected sidecar of CSI-Addons",
		"no connection to the sidecar of CSI-Addons in pod b",
	}))
}
