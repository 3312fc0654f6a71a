package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

func TestRunningPodsHoldTheLeasesOfSidecars(t *testing.T) {
	t.Parallel()
	leads := []string{"--leader-election"}
	labels := map[string]string{"app": "a"}
	control, target := fake.NewClientset(
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "control", Name: "controller"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "csi-driver"},
					{Name: "csi-provisioner", Args: leads},
					{Name: "csi-snapshotter", Args: leads},
					{Name: "csi-liveness-probe"},
				}}},
			},
		},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "control", Name: "pending", Labels: labels},
		},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "control", Name: "running", Labels: labels},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		},
	), fake.NewClientset()
	o := fixtures.Operator{
		OperandNamespace: "driver", ClusterCSIDriver: "a.example", Workloads: []string{"controller"},
	}
	if err := renewLeases(t.Context(), control, "control", target, o); err != nil {
		t.Fatal(err)
	}
	leases, err := target.CoordinationV1().Leases("driver").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, lease := range leases.Items {
		got[lease.Name] = *lease.Spec.HolderIdentity
	}
	want := map[string]string{
		"a-example": "running", "external-snapshotter-leader-a-example": "running",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
}
