//go:build e2e

// Package nodes tests real nodes. `make test-node` runs it.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	devcluster "github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/e2e/cluster"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// id and late are IDs of volumes.
const id, late = "0b1b7a2e-6d2a-4c34-9d0b-f2a1c3d4e5f6", "9c1de6b4-5f9a-4c53-8f0e-d2b7a1c4e6f3"

// start starts two nodes with a pod on each.
func start(ctx context.Context) (*cluster.Cluster, error) {
	c, err := cluster.Start(ctx, cluster.Options{Name: "nodes", Nodes: 2, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	return c, guide.Run(ctx, `kubectl create -f - <<END
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: pod}
spec:
  selector: {matchLabels: {pod: pod}}
  template:
    metadata: {labels: {pod: pod}}
    spec:
      containers: [{name: main, image: "registry.k8s.io/pause:3.10.1", imagePullPolicy: Never}]
END
kubectl rollout status daemonset/pod --timeout=5m`,
		"KUBECONFIG="+c.Dir.AdminKubeconfig(), "PATH="+c.Binaries+":"+os.Getenv("PATH"))
}

// attach attaches a new volume to a node. It returns the device, and the file of the volume.
func attach(
	ctx context.Context, c *cluster.Cluster, node *devcluster.Node, id string,
) (device, file string, err error) {
	file = filepath.Join(c.Dir.OpenStackState(), "volumes", id)
	err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
		os.WriteFile(file, make([]byte, 64<<20), 0o600))
	if err == nil {
		device, err = node.Attach(ctx, id, file)
	}
	return device, file, err
}

// A loss of power must lose what nothing has synchronized: tests of lost nodes depend on it.
func TestNodeBootsAfterALossOfPower(t *testing.T) {
	c, err := start(t.Context())
	assert.NilError(t, err)
	t.Cleanup(c.Stop)
	x := &pods.Test{T: t, Cluster: c}
	node := c.Nodes()[0]
	started := startOf(x, node)
	device, file, err := attach(t.Context(), c, node, id)
	assert.NilError(t, err)
	hasName(t, c, node, id, device)
	assert.NilError(t, os.Truncate(file, 96<<20))
	assert.NilError(t, node.Resize(t.Context(), id))
	size, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/size")
	assert.Check(t, err == nil && strings.TrimSpace(string(size)) == fmt.Sprint(96<<20/512),
		"the device has %q sectors: %v", size, err)
	mustRun(t, "mkfs.ext4", "-q", device)
	mount := func() {
		mustRun(t, "nsenter", "--target="+pid(t, c, node), "--mount", "--root", "--wd", "mount",
			device, "/mnt")
	}
	mount()
	machineIsUntouched(t, c, node)
	mustWrite(t, path(t, c, node, "/mnt/synchronized"), true)
	mustWrite(t, path(t, c, node, "/mnt/lost"), false)

	assert.NilError(t, node.CutPower())
	lateDevice, _, err := attach(t.Context(), c, node, late)
	assert.NilError(t, err, "attaching a volume to a node without power")
	assert.NilError(t, node.PowerOn(t.Context()))
	hasName(t, c, node, id, device)
	hasName(t, c, node, late, lateDevice)
	mount()
	content, err := os.ReadFile(path(t, c, node, "/mnt/synchronized"))
	assert.Check(t, err == nil && string(content) == data,
		"the synchronized file contains %q: %v", content, err)
	if content, err := os.ReadFile(path(t, c, node, "/mnt/lost")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file that nothing synchronized contains %q: %v", content, err)
	}
	x.Eventually("the pod has started again", func() error {
		if now := startOf(x, node); now == started {
			return errors.New(now)
		}
		return nil
	})
	for range 2 { // the second does nothing
		assert.NilError(t, node.Detach(t.Context(), late))
	}
	_, err = os.Lstat(path(t, c, node, nameOf(late)))
	assert.Check(t, is.ErrorIs(err, fs.ErrNotExist), "the name of a detached volume")

	mark, err := tracesOf(c)
	assert.NilError(t, err)
	c.Stop()
	assert.Check(t, mark.left(), "after Stop")
}

// data is what the files of the test contain.
const data = "data"

// nameOf returns the name that Nova and udev give to a volume.
func nameOf(id string) string { return "/dev/disk/by-id/virtio-" + id[:20] }

// hasName checks that a volume has a name in its node, and nowhere else.
func hasName(t *testing.T, c *cluster.Cluster, node *devcluster.Node, id, device string) {
	t.Helper()
	target, err := os.Readlink(path(t, c, node, nameOf(id)))
	assert.Check(t, err == nil && target == device, "the name of the volume leads to %q: %v", target,
		err)
	for _, elsewhere := range []string{nameOf(id), path(t, c, c.Nodes()[1], nameOf(id))} {
		_, err := os.Lstat(elsewhere)
		assert.Check(t, is.ErrorIs(err, fs.ErrNotExist), elsewhere)
	}
}

// machineIsUntouched checks that the mounts of a node do not reach the machine, and that the node
// does not write settings of its kernel.
func machineIsUntouched(t *testing.T, c *cluster.Cluster, node *devcluster.Node) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	assert.NilError(t, err)
	assert.Check(t, !strings.Contains(string(mounts), string(c.Dir)),
		"mounts of a node reached the machine:\n%s", mounts)
	for _, name := range []string{"vm/overcommit_memory", "kernel/panic"} {
		name = "/proc/sys/" + name
		var machine, inNode syscall.Stat_t
		assert.NilError(t, errors.Join(syscall.Stat(name, &machine),
			syscall.Stat(path(t, c, node, name), &inNode)))
		assert.Check(t, machine.Dev != inNode.Dev, "the node writes %s of the machine", name)
	}
}

// startOf returns when the container of the pod of a node started, and how often it did.
func startOf(x *pods.Test, node *devcluster.Node) string {
	x.T.Helper()
	list, err := x.Pods().List(x.T.Context(),
		metav1.ListOptions{FieldSelector: "spec.nodeName=" + node.Name()})
	x.Must(err)
	assert.Assert(x.T, is.Len(list.Items, 1))
	status := list.Items[0].Status.ContainerStatuses[0]
	return fmt.Sprint(status.State.Running, status.RestartCount)
}

// pid returns the ID of the first process of a node.
func pid(t *testing.T, c *cluster.Cluster, node *devcluster.Node) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(c.Dir.Node(node.Name()), "pid"))
	assert.NilError(t, err)
	return string(content)
}

// path returns the path of a file of a node for processes of the machine.
func path(t *testing.T, c *cluster.Cluster, node *devcluster.Node, file string) string {
	t.Helper()
	return filepath.Join("/proc", pid(t, c, node), "root", file)
}

// mustWrite writes a file, and synchronizes it if the test wants that.
func mustWrite(t *testing.T, name string, synchronize bool) {
	t.Helper()
	file, err := os.Create(name)
	assert.NilError(t, err)
	_, err = file.WriteString(data)
	if synchronize {
		err = errors.Join(err, file.Sync())
	}
	assert.NilError(t, errors.Join(err, file.Close()))
}

func mustRun(t *testing.T, program string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	assert.NilError(t, err, "%s: %s", program, out)
}
