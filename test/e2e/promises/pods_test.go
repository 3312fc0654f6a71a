//go:build e2e

package promises

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/test/e2e/cluster"
)

const (
	// namespace contains the pods and claims of the tests.
	namespace = "default"
	// busybox is the image of these pods.
	busybox = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
	// timeout bounds every wait, for a busy machine.
	timeout = 5 * time.Minute
	// cleanupTimeout bounds what happens after a test.
	cleanupTimeout = 2 * time.Minute
)

// class is a StorageClass with its access mode.
type class struct {
	name string
	mode corev1.PersistentVolumeAccessMode
}

func cinderClass() class { return class{"standard-csi", corev1.ReadWriteOnce} }

func manilaClass() class { return class{"csi-manila-default", corev1.ReadWriteMany} }

// test is a running test with its cluster.
type test struct {
	t *testing.T
	c *cluster.Cluster
}

func (x *test) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// eventually calls check until it returns nil.
func (x *test) eventually(what string, check func() error) {
	x.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(x.t.Context(), 200*time.Millisecond, timeout, true,
		func(context.Context) (bool, error) {
			last = check()
			return last == nil, nil
		})
	if err != nil {
		x.t.Fatalf("waiting until %s: %v: %v", what, err, last)
	}
}

func (x *test) pods() corev1client.PodInterface { return x.c.Client.CoreV1().Pods(namespace) }

// describe returns the state of a pod, with its last events, as an error.
func (x *test) describe(pod *corev1.Pod) error {
	text := fmt.Sprintf("pod %s is %s", pod.Name, pod.Status.Phase)
	events, err := x.c.Client.CoreV1().Events(pod.Namespace).List(x.t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + pod.Name,
	})
	if err != nil {
		return err
	}
	for _, event := range events.Items {
		text += "; " + event.Reason + ": " + event.Message
	}
	return fmt.Errorf("%s", text)
}

// claim creates a claim, and deletes it after the test.
func (x *test) claim(name string, of class) {
	x.t.Helper()
	claims := x.c.Client.CoreV1().PersistentVolumeClaims(namespace)
	_, err := claims.Create(x.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec(of),
	}, metav1.CreateOptions{})
	x.must(err)
	x.cleanUp(func(ctx context.Context) error {
		return claims.Delete(ctx, name, metav1.DeleteOptions{})
	})
}

func claimSpec(of class) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{of.mode}, StorageClassName: &of.name,
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}
}

// cleanUp calls work after the test.
func (x *test) cleanUp(work func(context.Context) error) {
	x.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := work(ctx); err != nil {
			x.t.Error(err)
		}
	})
}

// podSpec returns a pod that runs a script with the volume of a claim.
func podSpec(script, claim string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To[int64](10),
		DNSPolicy: corev1.DNSDefault,
		Containers: []corev1.Container{{
			Name: "main", Image: busybox, Command: []string{"sh", "-c", script},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: dataPath}},
		}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}},
	}
}

// create creates a pod, and deletes it after the test.
func (x *test) create(name string, spec corev1.PodSpec) {
	x.t.Helper()
	_, err := x.pods().Create(x.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	}, metav1.CreateOptions{})
	x.must(err)
	x.cleanUp(func(ctx context.Context) error { return x.remove(ctx, name) })
}

// remove deletes a pod and waits until it is gone, so that its volume is unmounted. Its StatefulSet
// may create a new one.
func (x *test) remove(ctx context.Context, name string) error {
	pod, err := x.pods().Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = x.pods().Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true,
		func(ctx context.Context) (bool, error) {
			found, err := x.pods().Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && found.UID != pod.UID, nil
		})
}

// write creates a claim and a pod that writes records to it.
func (x *test) write(name string, of class) *writer {
	x.t.Helper()
	x.claim(name, of)
	x.create(name, podSpec(writeRecords, name))
	return x.follow(name)
}

// mustHaveWritten ends the pod of a writer, and checks the records in a new pod.
func (x *test) mustHaveWritten(w *writer, claim string) {
	x.t.Helper()
	x.must(x.remove(x.t.Context(), w.pod))
	w.mu.Lock()
	last, err := w.last, w.err
	w.mu.Unlock()
	x.must(err)
	mustContain(x.t, x.read(claim), last)
}

// read returns the records of a claim.
func (x *test) read(claim string) string {
	x.t.Helper()
	name := claim + "-reader"
	x.create(name, podSpec("cat "+records, claim))
	x.eventually("pod "+name+" has read", func() error {
		pod, err := x.pods().Get(x.t.Context(), name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodSucceeded {
			err = x.describe(pod)
		}
		return err
	})
	return x.output(name)
}

// output returns what a pod has printed.
func (x *test) output(pod string) string {
	x.t.Helper()
	out, err := x.pods().GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(x.t.Context())
	x.must(err)
	return string(out)
}
