//go:build e2e

package nodes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/e2e/cluster"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// parentVariable makes this program start a cluster and wait, as the parent of a test.
const parentVariable = "NODE_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		fmt.Fprintln(os.Stderr, runParent(context.Background()))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runParent starts a cluster with a loop device and pods, prints what it leaves on the machine, and
// waits until it is killed.
func runParent(ctx context.Context) error {
	c, err := start(ctx)
	if err != nil {
		return err
	}
	if _, _, err := attach(ctx, c, c.Nodes()[0], id); err != nil {
		return err
	}
	mark, err := tracesOf(c)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(mark); err != nil {
		return err
	}
	select {}
}

func TestNothingIsLeftAfterTheParentWasKilled(t *testing.T) {
	program, err := os.Executable()
	assert.NilError(t, err)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), parentVariable+"=yes")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	assert.Assert(t, lines.Scan(), "the parent did not start")
	var mark traces
	assert.NilError(t, json.Unmarshal(lines.Bytes(), &mark))
	assert.Check(t, mark.left() != nil, "a running cluster leaves no trace: the test checks nothing")
	assert.NilError(t, cmd.Process.Kill())
	_ = cmd.Wait() // its status says that it was killed
	// The API server and etcd are processes of the devcluster, which ends them at its next start.
	t.Cleanup(func() { process.KillLeftovers(mark.Dir, os.Getenv("K8S_BIN_DIR")) })
	x := &pods.Test{T: t}
	x.Eventually("nothing is left", mark.left)
}

// traces is what a cluster leaves on the machine while it runs.
type traces struct {
	Dir       string
	Interface int
	Groups    []string
}

// tracesOf returns the traces of a running cluster. Another cluster may take the name and the
// address of its interface later, but not the index.
func tracesOf(c *cluster.Cluster) (traces, error) {
	found := traces{Dir: string(c.Dir)}
	for _, node := range c.Nodes() {
		var config struct{ CGroup string }
		content, err := os.ReadFile(filepath.Join(c.Dir.Node(node.Name()), "config.json"))
		if err := errors.Join(err, json.Unmarshal(content, &config)); err != nil {
			return found, err
		}
		found.Groups = append(found.Groups, config.CGroup)
	}
	machine, _, _ := strings.Cut(c.Registry(), ":")
	interfaces, err := net.Interfaces()
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		for _, address := range addresses {
			if strings.HasPrefix(address.String(), machine+"/") {
				found.Interface = i.Index
				return found, nil
			}
		}
	}
	return found, errors.Join(err, fmt.Errorf("no interface has the address %s", machine))
}

// left returns an error if the machine contains something of the cluster.
func (l traces) left() error {
	var errs []error
	if found, err := net.InterfaceByIndex(l.Interface); err == nil {
		errs = append(errs, fmt.Errorf("there is interface %s", found.Name))
	}
	for _, group := range l.Groups {
		for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			if found, _ := filepath.Glob(filepath.Join(pattern, group)); len(found) > 0 {
				errs = append(errs, fmt.Errorf("there is control group %s", found))
			}
		}
	}
	// Processes of the node have its folder as their root, or as an argument.
	for what, pattern := range map[string]string{
		"loop device": "/sys/block/loop*/loop/backing_file", "process": "/proc/[0-9]*/mountinfo",
	} {
		files, err := filepath.Glob(pattern)
		errs = append(errs, err)
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err == nil && strings.Contains(string(content), l.Dir+"/") {
				errs = append(errs, fmt.Errorf("%s %s is of the cluster", what, file))
			}
		}
	}
	return errors.Join(errs...)
}
