//go:build integration

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/node/supervisor"
)

// Kubernetes calls this propagation Bidirectional: node plugins of CSI drivers need it.
func TestMountsOfPodsReachOtherPodsAndNotTheMachine(t *testing.T) {
	t.Parallel()
	const folder = "/var/lib/kubelet/mounts"
	mounter := shared.pod("mounter", shared.nodes[0], "pause")
	share(mounter, folder, corev1.MountPropagationBidirectional)
	mounter.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ref(true)}
	reader := shared.pod("reader", shared.nodes[0], "pause")
	share(reader, folder, corev1.MountPropagationHostToContainer)
	shared.run(t, mounter)
	shared.run(t, reader)
	shared.mustEventually(t, "exec", mounter.Name, "--", podProgram, "mount", folder+"/volume")
	shared.mustEventually(t, "exec", reader.Name, "--", podProgram, "stat", folder+"/volume/mounted")
	if _, err := os.Stat(shared.nodes[0].path(folder + "/volume/mounted")); err != nil {
		t.Errorf("the mount did not reach the node: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	assert.NilError(t, err)
	assert.Check(t, !strings.Contains(string(mounts), shared.dir),
		"mounts of a node reached the machine:\n%s", mounts)
}

func TestVolumesHaveNamesInTheirNodeOnly(t *testing.T) {
	t.Parallel()
	const id = "0b1b7a2e-6d2a-4c34-9d0b-f2a1c3d4e5f6"
	node, other := shared.nodes[0], shared.nodes[1]
	file := filepath.Join(shared.dir, "volumes", id)
	truncate(t, file, 16<<20)
	device, err := node.Attach(t.Context(), id, file)
	assert.NilError(t, err)
	name := "/dev/disk/by-id/virtio-" + id[:20]
	if target, err := os.Readlink(node.path(name)); err != nil || target != device {
		t.Errorf("the name of the volume leads to %q: %v, want %s", target, err, device)
	}
	for place, path := range map[string]string{"the machine": name, "node 2": other.path(name)} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s has the name of the volume: %v", place, err)
		}
	}
	truncate(t, file, 32<<20)
	assert.NilError(t, node.Resize(t.Context(), id))
	size, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/size")
	assert.Check(t, err == nil && strings.TrimSpace(string(size)) == fmt.Sprint(32<<20/512),
		"the device has %q sectors: %v", size, err)
	if again, err := node.Attach(t.Context(), id, file); err != nil || again != device {
		t.Errorf("the volume was attached again as %q: %v", again, err)
	}
	for range 2 { // the second does nothing
		assert.NilError(t, node.Detach(t.Context(), id))
	}
	if _, err := os.Lstat(node.path(name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the name of the volume remains: %v", err)
	}
	mustPoll(t, func(context.Context) error { return noLoopDevice(file) })
}

func TestPodsSurviveTheRestartOfServices(t *testing.T) {
	t.Parallel()
	node := shared.nodes[1]
	pod := shared.run(t, shared.pod("survivor", node, "pause"))
	started := shared.startOf(t, pod.Name)
	for _, service := range []string{supervisor.Kubelet, supervisor.Containerd, supervisor.KubeProxy} {
		assert.NilError(t, node.Restart(t.Context(), service))
		shared.mustEventually(t, "exec", pod.Name, "--", podProgram, "stat", podProgram)
		assert.Check(t, is.Equal(shared.startOf(t, pod.Name), started),
			"the pod started at %s, and after the restart of %s at", started, service)
	}
}

// startOf returns the time at which the container of a pod started, and how often it did.
func (c *testCluster) startOf(t *testing.T, name string) string {
	t.Helper()
	pod, err := c.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	assert.NilError(t, err)
	status := pod.Status.ContainerStatuses[0]
	return fmt.Sprint(status.State.Running, status.RestartCount)
}

func TestKernelSettingsOfTheMachineStay(t *testing.T) {
	t.Parallel()
	for name := range map[string]string{"vm/overcommit_memory": "", "kernel/panic": ""} {
		ours, err := os.ReadFile("/proc/sys/" + name)
		assert.NilError(t, err)
		var machine, node syscall.Stat_t
		assert.NilError(t, errors.Join(syscall.Stat("/proc/sys/"+name, &machine),
			syscall.Stat(shared.nodes[0].path("/proc/sys/"+name), &node)))
		assert.Check(t, machine.Dev != node.Dev,
			"node 1 writes %s of the machine, which is %s", name, ours)
	}
}
