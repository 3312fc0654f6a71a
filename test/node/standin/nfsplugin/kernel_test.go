package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace is the variable that the test sets for its own process in a new mount namespace.
const inNamespace = "NFSPLUGIN_TEST_IN_NAMESPACE"

// The test runs itself in new user and mount namespaces, so that it needs no root and leaves no
// mounts.
func TestKernelBindsFolders(t *testing.T) {
	t.Parallel()
	if os.Getenv(inNamespace) != "" {
		testBinds(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKernelBindsFolders$")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func testBinds(t *testing.T) {
	t.Helper()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		target := t.TempDir()
		if err := (kernel{}).Bind(folder, target, readOnly); err != nil {
			t.Fatal(err)
		}
		if mounted, err := (kernel{}).Mounted(target); err != nil || !mounted {
			t.Errorf("mounted: %t, %v", mounted, err)
		}
		if content, err := os.ReadFile(filepath.Join(target, "file")); string(content) != "content" {
			t.Errorf("read %q, %v", content, err)
		}
		err := os.WriteFile(filepath.Join(target, "new"), nil, 0o600)
		if refused := errors.Is(err, unix.EROFS); refused != readOnly {
			t.Errorf("read-only %t: writing returned %v", readOnly, err)
		}
		if err := (kernel{}).Unmount(target); err != nil {
			t.Fatal(err)
		}
		if mounted, err := (kernel{}).Mounted(target); err != nil || mounted {
			t.Errorf("mounted after unmount: %t, %v", mounted, err)
		}
	}
	if mounted, err := (kernel{}).Mounted(filepath.Join(folder, "missing")); err != nil || mounted {
		t.Errorf("missing target: %t, %v", mounted, err)
	}
}
