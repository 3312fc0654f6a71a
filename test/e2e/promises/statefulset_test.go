//go:build e2e

package promises

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// writeInStatefulSet creates a StatefulSet with one pod that writes records to a claim of its own.
// Both have the name of the StatefulSet with suffix -0, the claim with the prefix data-.
func (x *test) writeInStatefulSet(name string, of pods.Class) *writer {
	x.T.Helper()
	labels := map[string]string{"statefulset": name}
	pod := pods.Spec(writeRecords, name)
	// The StatefulSet adds the volume of the claim.
	pod.RestartPolicy, pod.Volumes = corev1.RestartPolicyAlways, nil
	sets := x.Cluster.Client.AppsV1().StatefulSets(namespace)
	_, err := sets.Create(x.T.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](1), ServiceName: name,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod,
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: pods.ClaimSpec(of),
			}},
		},
	}, metav1.CreateOptions{})
	x.Must(err)
	x.CleanUp(func(ctx context.Context) error {
		return errors.Join(x.removeStatefulSet(ctx, name),
			x.Cluster.Client.CoreV1().PersistentVolumeClaims(namespace).
				Delete(ctx, "data-"+name+"-0", metav1.DeleteOptions{}))
	})
	return x.follow(name + "-0")
}

// removeStatefulSet deletes a StatefulSet and waits until its pod is gone.
func (x *test) removeStatefulSet(ctx context.Context, name string) error {
	err := x.Cluster.Client.AppsV1().StatefulSets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	return errors.Join(client.IgnoreNotFound(err), x.Remove(ctx, name+"-0"))
}

// mustHaveWrittenInStatefulSet deletes a StatefulSet, and checks its records in a new pod.
func (x *test) mustHaveWrittenInStatefulSet(w *writer, name string) {
	x.T.Helper()
	x.Must(x.removeStatefulSet(x.T.Context(), name))
	x.mustHaveWritten(w, "data-"+name+"-0")
}
