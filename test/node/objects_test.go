//go:build integration

package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

func ref[T any](value T) *T { return &value }

// pod returns a pod of this program on a node.
func (c *testCluster) pod(name string, node *Node, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod": name}},
		Spec: corev1.PodSpec{
			NodeName: node.Name(), TerminationGracePeriodSeconds: ref[int64](1),
			Containers: []corev1.Container{{
				Name: "main", Image: podImage, Args: args, ImagePullPolicy: corev1.PullNever,
			}},
		},
	}
}

// share mounts a folder of the node at the same path.
func share(pod *corev1.Pod, folder string, propagation corev1.MountPropagationMode) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: "shared", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: folder, Type: ref(corev1.HostPathDirectoryOrCreate),
		}},
	})
	container := &pod.Spec.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
		Name: "shared", MountPath: folder, MountPropagation: &propagation,
	})
}

// create creates a pod and waits until it runs.
func (c *testCluster) create(ctx context.Context, pod *corev1.Pod) error {
	pods := c.client.CoreV1().Pods(namespace)
	// The controller manager creates the ServiceAccount of the pod.
	err := poll(ctx, func(ctx context.Context) error {
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) error {
		found, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		*pod = *found
		if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
			return fmt.Errorf("pod %s is %s: %v", pod.Name, pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return nil
	})
}

// run creates a pod, waits until it runs, and deletes it after the test.
func (c *testCluster) run(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	assert.NilError(t, c.create(t.Context(), pod))
	t.Cleanup(func() {
		err := c.client.CoreV1().Pods(namespace).
			Delete(context.Background(), pod.Name, metav1.DeleteOptions{})
		assert.Check(t, err)
	})
	return pod
}

// kubectl runs kubectl and returns its output.
func (c *testCluster) kubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv("K8S_BIN_DIR"), "kubectl"),
		append([]string{"--kubeconfig=" + c.kubeconfig()}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

// mustEventually repeats a command of kubectl until it succeeds.
func (c *testCluster) mustEventually(t *testing.T, args ...string) {
	t.Helper()
	mustPoll(t, func(context.Context) error {
		_, err := c.kubectl(t, args...)
		return err
	})
}

func mustPoll(t *testing.T, check func(context.Context) error) {
	t.Helper()
	assert.NilError(t, poll(t.Context(), check))
}

// truncate sets the size of a file.
func truncate(t *testing.T, file string, size int64) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	assert.NilError(t, err)
	defer f.Close()
	assert.NilError(t, f.Truncate(size))
}

// noLoopDevice returns an error if there is a loop device of a file whose path starts with a
// prefix.
func noLoopDevice(prefix string) error {
	devices, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, device := range devices {
		file, err := os.ReadFile(device)
		if err == nil && strings.HasPrefix(string(file), prefix) {
			return fmt.Errorf("there is a loop device of %s", file)
		}
	}
	return nil
}

// killProgramsOf ends the control plane with files in a folder.
func killProgramsOf(dir string) { process.KillLeftovers(dir, os.Getenv("K8S_BIN_DIR")) }
