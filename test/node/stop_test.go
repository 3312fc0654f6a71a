//go:build integration

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// parentVariable makes this program start a cluster and wait, as the parent of a test.
const parentVariable = "NODE_TEST_PARENT"

// runParent starts a cluster in the folder with a loop device, and waits until it is killed.
func runParent(dir string) error {
	c, err := startCluster(dir, os.Getenv("NODE_BIN_DIR"))
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "volumes", "volume")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file,
		make([]byte, 1<<20), 0o600)); err != nil {
		return err
	}
	if _, err := c.nodes[0].Attach(context.Background(), "volume", file); err != nil {
		return err
	}
	pod := c.pod("pod", c.nodes[0], "pause")
	if err := c.create(context.Background(), pod); err != nil {
		return err
	}
	fmt.Println("started", c.network.interfaceName())
	select {}
}

func TestNothingIsLeftAfterTheParentWasKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, err := os.Executable()
	assert.NilError(t, err)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), parentVariable+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	line := make([]byte, 100)
	n, err := out.Read(line)
	assert.NilError(t, err, "the parent did not start")
	name := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "started "))
	networkInterface := mustFind(t, name)
	if err := left(dir, networkInterface); err == nil {
		t.Error("a running cluster leaves no trace: the test checks nothing")
	}
	assert.NilError(t, cmd.Process.Kill())
	_ = cmd.Wait() // its status says that it was killed
	// The API server and etcd are processes of the devcluster, which ends them at its next start.
	t.Cleanup(func() { killProgramsOf(dir) })
	mustPoll(t, func(context.Context) error { return left(dir, networkInterface) })
}

func TestNothingIsLeftAfterStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, err := startCluster(dir, os.Getenv("NODE_BIN_DIR"))
	assert.NilError(t, err)
	networkInterface := mustFind(t, c.network.interfaceName())
	start := time.Now()
	assert.NilError(t, c.stop())
	t.Logf("stopped in %v", time.Since(start))
	assert.Check(t, left(dir, networkInterface))
}

// mustFind returns the index of an interface. Another cluster may take the name later.
func mustFind(t *testing.T, name string) int {
	t.Helper()
	found, err := net.InterfaceByName(name)
	assert.NilError(t, err)
	return found.Index
}

// left returns an error if the machine contains something of the cluster in a folder.
func left(dir string, networkInterface int) error {
	var errs []error
	if found, err := net.InterfaceByIndex(networkInterface); err == nil {
		errs = append(errs, fmt.Errorf("there is interface %s", found.Name))
	}
	errs = append(errs, noLoopDevice(dir))
	for _, name := range []string{"node-1", "node-2"} {
		group := configure(&Network{}, Options{Dir: filepath.Join(dir, "nodes", name), Name: name}).CGroup
		for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			found, err := filepath.Glob(filepath.Join(pattern, group))
			if len(found) > 0 {
				err = fmt.Errorf("there is control group %s", found)
			}
			errs = append(errs, err)
		}
	}
	// Processes of the node have its folder as their root, or as an argument.
	processes, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	errs = append(errs, err)
	for _, file := range processes {
		content, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(content), dir+"/") {
			errs = append(errs, fmt.Errorf("process %s has mounts of the node", filepath.Dir(file)))
		}
	}
	return errors.Join(errs...)
}
