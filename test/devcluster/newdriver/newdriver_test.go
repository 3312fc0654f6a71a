//go:build integration

// Package newdriver_test creates a driver in a copy of the repository with `make new-driver`, and
// runs it in a devcluster until it is available.
package newdriver_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// TestNewDriver takes the steps of docs/adding-a-driver.md, in their order.
func TestNewDriver(t *testing.T) {
	t.Parallel()
	if os.Getenv("K8S_BIN_DIR") == "" {
		t.Fatal("K8S_BIN_DIR is not set: make test-devcluster sets it; " +
			"without it this test would build Kubernetes")
	}
	root := copyRepository(t)
	run(t, root, "make", "new-driver", "NAME=demo")
	run(t, root, "make", "verify")
	run(t, root, "make", "test-unit")
	run(t, root, "make", "run", "ARGS=--drivers=demo --exit-when-ready --timeout=5m")
}

// copyRepository copies the source tree. It keeps file times, so that Go can use cached test
// results.
func copyRepository(t *testing.T) string {
	t.Helper()
	repository, err := filepath.Abs("../../..")
	assert.NilError(t, err)
	entries, err := os.ReadDir(repository)
	assert.NilError(t, err)
	root := t.TempDir()
	args := []string{"-a", "-t", root}
	for _, entry := range entries {
		if !slices.Contains([]string{".git", ".devcluster", "bin"}, entry.Name()) {
			args = append(args, filepath.Join(repository, entry.Name()))
		}
	}
	run(t, root, "cp", args...)
	return root
}

// run runs a program in a folder, without the variables that make set for this test.
func run(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{
			"MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "TESTFLAGS", "PACKAGES", "TAGS", "ARGS",
			"NAME", "BIN_DIR", "PWD",
		}, name)
	})
	start := time.Now()
	out, err := cmd.CombinedOutput()
	assert.Assert(t, err == nil, "%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	t.Logf("%s %s took %v", program, args[0], time.Since(start).Round(time.Second))
}
