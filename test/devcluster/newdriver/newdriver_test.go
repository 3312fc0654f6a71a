//go:build integration

// Package newdriver_test makes a new driver in a copy of the repository, with one command and
// nothing by hand, and runs it in a devcluster until it is available. Then it makes the mistakes
// that people make with the files of a driver.
package newdriver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
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
	for name, made := range mistakes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made.check(t, root)
		})
	}
}

// copyRepository copies the source tree. It keeps file times, so that Go can use cached test
// results.
func copyRepository(t *testing.T) string {
	t.Helper()
	repository, err := paths.FindRepository()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(string(repository))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	args := []string{"-a", "-t", root}
	for _, entry := range entries {
		if !slices.Contains([]string{".git", ".devcluster", "bin"}, entry.Name()) {
			args = append(args, filepath.Join(string(repository), entry.Name()))
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
			"MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "TESTFLAGS", "ARGS", "NAME", "BIN_DIR",
			"PWD",
		}, name)
	})
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	t.Logf("%s %s took %v", program, args[0], time.Since(start).Round(time.Second))
}

// mistake is a change in the demo driver's assets, and the error that the generator must report.
type mistake struct {
	file, old, new string // file is relative to assets/; an old text of "" is the end of the file
	// at is the text in the line that the error must name, of atFile or else of the same file.
	at, atFile string
	want       string
}

// check makes the mistake in a copy of the assets.
func (m mistake) check(t *testing.T, root string) {
	t.Helper()
	copied := t.TempDir()
	run(t, root, "cp", "-a", "assets", copied)
	assets := filepath.Join(copied, "assets")
	m.edit(t, assets)
	said, code := generate(t.Context(), filepath.Join(root, "bin", "asset-generator"), assets)
	if want := m.position(t, assets) + m.want; code != 1 || !strings.Contains(said, "\n"+want) {
		t.Errorf("exit code %d and\n%s\nwant 1 and a line that starts with\n%s", code, said, want)
	}
}

func (m mistake) edit(t *testing.T, assets string) {
	t.Helper()
	file := filepath.Join(assets, m.file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := string(text) + m.new
	if m.old != "" {
		changed = strings.Replace(string(text), m.old, m.new, 1)
	}
	if changed == string(text) {
		t.Fatalf("%s has no %q", m.file, m.old)
	}
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

// position returns the file and line at the start of the error.
func (m mistake) position(t *testing.T, assets string) string {
	t.Helper()
	file := m.file
	if m.atFile != "" {
		file = m.atFile
	}
	text, err := os.ReadFile(filepath.Join(assets, file))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, m.at) {
			return fmt.Sprintf("%s:%d: ", file, i+1)
		}
	}
	t.Fatalf("%s has no %q", file, m.at)
	return ""
}

func generate(ctx context.Context, program, assets string) (said string, code int) {
	cmd := exec.CommandContext(ctx, program, "--assets", assets)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err.Error(), -1
	}
	return string(out), cmd.ProcessState.ExitCode()
}
