//go:build e2e

package promises

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// driverContainer is the container of the CSI plugin in each pod of a driver.
const driverContainer = "csi-driver"

// TestLivenessProbesRestartHungPlugins freezes the CSI plugins of both drivers on the node of the
// writers, and in the pods of the controllers.
func TestLivenessProbesRestartHungPlugins(t *testing.T) {
	x := use(t, kind{tls: true})
	writers := x.write("liveness")
	node := writers[0].Node()
	frozen := map[string]corev1.Pod{}
	for _, w := range x.workloads() {
		for _, pod := range x.podsOf(w) {
			if w.isDeployment || pod.Spec.NodeName == node {
				x.freeze(pod, driverContainer)
				frozen[pod.Name] = pod
			}
		}
	}
	for _, pod := range frozen {
		x.Eventually("kubelet restarts the plugin of pod "+pod.Name, func() error {
			now, err := x.Cluster.Client.CoreV1().Pods(pod.Namespace).
				Get(t.Context(), pod.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			was, is := statusOf(pod, driverContainer), statusOf(*now, driverContainer)
			if now.UID != pod.UID || is.RestartCount == was.RestartCount || !is.Ready {
				return fmt.Errorf("restarts: %d, ready: %t", is.RestartCount, is.Ready)
			}
			return nil
		})
	}
	x.Must(x.Cluster.WaitUntilReady(t.Context()))
	writers.mustBeUndisturbed()
	// The plugins work again on this node: they unmount, create, attach and mount volumes.
	writers.mustHaveWritten()
	x.write("liveness-new").mustHaveWritten()
}

// statusOf returns the status of a container.
func statusOf(pod corev1.Pod, container string) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// freeze stops the processes of a container of a pod. They do not end, and answer no more.
func (x *test) freeze(pod corev1.Pod, container string) {
	x.T.Helper()
	_, id, ok := strings.Cut(statusOf(pod, container).ContainerID, "://")
	assert.Assert(x.T, ok,
		"container %s of pod %s does not run: %v", container, pod.Name, pod.Status.ContainerStatuses)
	processes, err := processesOf(id)
	x.Must(err)
	assert.Assert(x.T, len(processes) != 0,
		"the machine has no process of container %s of pod %s", id, pod.Name)
	for _, process := range processes {
		x.Must(syscall.Kill(process, syscall.SIGSTOP))
	}
}

// processesOf returns the processes of a container, as the machine numbers them.
func processesOf(container string) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	var found []int
	var errs []error
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(content), "/"+container) {
			continue // the process has ended, or is of another container
		}
		process, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		errs = append(errs, err)
		found = append(found, process)
	}
	return found, errors.Join(errs...)
}
