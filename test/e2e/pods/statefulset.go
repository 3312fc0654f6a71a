package pods

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StatefulSet returns a StatefulSet with one pod, which runs a script with the volume of a claim of
// its own. Both have the name of the StatefulSet with suffix -0, the claim with the prefix data-.
func StatefulSet(name, script string, of Class) *appsv1.StatefulSet {
	labels := map[string]string{"statefulset": name}
	pod := Spec(script, name)
	// The StatefulSet adds the volume of the claim.
	pod.RestartPolicy, pod.Volumes = corev1.RestartPolicyAlways, nil
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](1), ServiceName: name,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod,
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: ClaimSpec(of),
			}},
		},
	}
}

// CreateStatefulSet creates a StatefulSet, and deletes it and its claim after the test.
func (x *Test) CreateStatefulSet(set *appsv1.StatefulSet) {
	x.T.Helper()
	_, err := x.Cluster.Client.AppsV1().StatefulSets(Namespace).
		Create(x.T.Context(), set, metav1.CreateOptions{})
	x.Must(err)
	x.CleanUp(func(ctx context.Context) error {
		return errors.Join(x.RemoveStatefulSet(ctx, set.Name),
			x.Cluster.Client.CoreV1().PersistentVolumeClaims(Namespace).
				Delete(ctx, "data-"+set.Name+"-0", metav1.DeleteOptions{}))
	})
}

// RemoveStatefulSet deletes a StatefulSet and waits until its pod is gone.
func (x *Test) RemoveStatefulSet(ctx context.Context, name string) error {
	err := x.Cluster.Client.AppsV1().StatefulSets(Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	return errors.Join(client.IgnoreNotFound(err), x.Remove(ctx, name+"-0"))
}
