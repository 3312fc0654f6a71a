// Package pods creates pods with volumes in a cluster with real nodes. Tests in test/e2e call it.
package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
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
	// Namespace contains the pods and claims of the tests.
	Namespace = "default"
	// DataPath is the folder of the volume in a pod.
	DataPath = "/data"
	// Sleep is the script of a pod in which tests run commands.
	Sleep = "trap 'exit 0' TERM; while :; do sleep 1; done"
	// Timeout bounds every wait, for a busy machine.
	Timeout = 5 * time.Minute
	// CleanupTimeout bounds what happens after a test.
	CleanupTimeout = 2 * time.Minute

	// busybox is the image of the pods.
	busybox  = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
	interval = 200 * time.Millisecond
)

// Class is a StorageClass with its access mode.
type Class struct {
	Name string
	Mode corev1.PersistentVolumeAccessMode
}

// Cinder returns the class of volumes of Cinder.
func Cinder() Class { return Class{"standard-csi", corev1.ReadWriteOnce} }

// Manila returns the class of shares of Manila.
func Manila() Class { return Class{"csi-manila-default", corev1.ReadWriteMany} }

// Test is a running test with its cluster. Its methods fail the test.
type Test struct {
	T       *testing.T
	Cluster *cluster.Cluster
}

// Must fails the test after an error.
func (x *Test) Must(err error) {
	x.T.Helper()
	assert.NilError(x.T, err)
}

// Eventually calls check until it returns nil.
func (x *Test) Eventually(what string, check func() error) {
	x.T.Helper()
	x.Within(Timeout, what, check)
}

// Within is Eventually with a limit of time.
func (x *Test) Within(limit time.Duration, what string, check func() error) {
	x.T.Helper()
	var last error
	err := wait.PollUntilContextTimeout(x.T.Context(), interval, limit, true,
		func(context.Context) (bool, error) {
			last = check()
			return last == nil, nil
		})
	assert.Assert(x.T, err == nil, "waiting %v until %s: %v: %v", limit, what, err, last)
}

// CleanUp calls work after the test.
func (x *Test) CleanUp(work func(context.Context) error) {
	x.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), CleanupTimeout)
		defer cancel()
		assert.Check(x.T, work(ctx))
	})
}

// Pods returns the pods of the tests.
func (x *Test) Pods() corev1client.PodInterface { return x.Cluster.Client.CoreV1().Pods(Namespace) }

// Describe returns the state of a pod, with its events, as an error.
func (x *Test) Describe(pod *corev1.Pod) error {
	text := fmt.Sprintf("pod %s is %s", pod.Name, pod.Status.Phase)
	events, err := x.Cluster.Client.CoreV1().Events(pod.Namespace).List(x.T.Context(),
		metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name})
	if err != nil {
		return err
	}
	for _, event := range events.Items {
		text += "; " + event.Reason + ": " + event.Message
	}
	return errors.New(text)
}

// Claim creates a claim, and deletes it after the test.
func (x *Test) Claim(name string, spec corev1.PersistentVolumeClaimSpec) {
	x.T.Helper()
	claims := x.Cluster.Client.CoreV1().PersistentVolumeClaims(Namespace)
	_, err := claims.Create(x.T.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	}, metav1.CreateOptions{})
	x.Must(err)
	x.CleanUp(func(ctx context.Context) error {
		return claims.Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// ClaimSpec returns a claim of 1 GiB.
func ClaimSpec(of Class) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{of.Mode}, StorageClassName: &of.Name,
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}
}

// Spec returns a pod that runs a script with the volume of a claim.
func Spec(script, claim string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To[int64](10),
		DNSPolicy: corev1.DNSDefault,
		Containers: []corev1.Container{{
			Name: "main", Image: busybox, Command: []string{"sh", "-c", script},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: DataPath}},
		}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}},
	}
}

// Create creates a pod, and deletes it after the test.
func (x *Test) Create(name string, spec corev1.PodSpec) {
	x.T.Helper()
	_, err := x.Pods().Create(x.T.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	}, metav1.CreateOptions{})
	x.Must(err)
	x.CleanUp(func(ctx context.Context) error { return x.Remove(ctx, name) })
}

// Remove deletes a pod and waits until it is gone, so that its volume is unmounted. Its StatefulSet
// may create a new one.
func (x *Test) Remove(ctx context.Context, name string) error {
	pod, err := x.Pods().Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = x.Pods().Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, interval, true,
		func(ctx context.Context) (bool, error) {
			found, err := x.Pods().Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && found.UID != pod.UID, nil
		})
}

// Running waits until a pod runs.
func (x *Test) Running(name string) *corev1.Pod {
	x.T.Helper()
	var pod *corev1.Pod
	x.Eventually("pod "+name+" runs", func() error {
		var err error
		pod, err = x.Pods().Get(x.T.Context(), name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = x.Describe(pod)
		}
		return err
	})
	return pod
}

// Exec runs a command in a pod as a user does, and returns its output.
func (x *Test) Exec(namespace, pod, container string, command ...string) (string, error) {
	args := append([]string{
		"--kubeconfig=" + x.Cluster.Dir.AdminKubeconfig(),
		"--namespace=" + namespace, "exec", pod, "--container=" + container, "--",
	}, command...)
	cmd := exec.CommandContext(x.T.Context(), filepath.Join(x.Cluster.Binaries, "kubectl"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("running %s in pod %s: %w: %s", strings.Join(command, " "), pod, err,
			stderr.String())
	}
	return stdout.String(), nil
}
