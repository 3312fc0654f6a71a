//go:build integration

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"gotest.tools/v3/assert"
)

// A loss of power must lose what nothing has synchronized: tests of lost nodes depend on it.
func TestNodeBootsAfterALossOfPower(t *testing.T) {
	t.Parallel()
	const id, late = "0b1b7a2e-6d2a-4c34-9d0b-f2a1c3d4e5f6", "9c1de6b4-5f9a-4c53-8f0e-d2b7a1c4e6f3"
	dir := t.TempDir()
	c, err := startCluster(dir, os.Getenv("NODE_BIN_DIR"))
	assert.NilError(t, err)
	t.Cleanup(func() {
		assert.Check(t, c.stop())
	})
	node := c.nodes[0]
	pod := c.run(t, c.pod("pod", node, "pause"))
	started := c.startOf(t, pod.Name)
	files := map[string]string{}
	for _, volume := range []string{id, late} {
		files[volume] = filepath.Join(dir, "volumes", volume)
		truncate(t, files[volume], 64<<20)
	}
	device, err := node.Attach(t.Context(), id, files[id])
	assert.NilError(t, err)
	mustRun(t, "mkfs.ext4", "-q", device)
	node.mustMount(t, device)
	mustWrite(t, node.path("/mnt/synchronized"), true)
	mustWrite(t, node.path("/mnt/lost"), false)

	assert.NilError(t, node.CutPower())
	if _, err := node.Attach(t.Context(), late, files[late]); err != nil {
		t.Errorf("attaching a volume to a node without power: %v", err)
	}
	assert.NilError(t, node.PowerOn(t.Context()))
	for _, volume := range []string{id, late} {
		if _, err := os.Readlink(node.path("/dev/disk/by-id/virtio-" + volume[:20])); err != nil {
			t.Errorf("the node has no name for the volume: %v", err)
		}
	}
	node.mustMount(t, device)
	content, err := os.ReadFile(node.path("/mnt/synchronized"))
	assert.Check(t, err == nil && string(content) == data,
		"the synchronized file contains %q: %v", content, err)
	if content, err := os.ReadFile(node.path("/mnt/lost")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file that nothing synchronized contains %q: %v", content, err)
	}
	mustPoll(t, func(context.Context) error {
		if now := c.startOf(t, pod.Name); now == started {
			return fmt.Errorf("the pod has not started again: %s", now)
		}
		return nil
	})
}

// data is what the files of the test contain.
const data = "data"

// mustMount mounts a device in the node at /mnt.
func (n *Node) mustMount(t *testing.T, device string) {
	t.Helper()
	mustRun(t, "nsenter", "--target="+strconv.Itoa(n.pid), "--mount", "--root", "--wd=/", "mount",
		device, "/mnt")
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
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
}
