//go:build openstack

package services

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// parentVariable makes this test binary a program that runs a Python program in a folder.
const parentVariable = "SERVICES_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		os.Exit(runPython(dir))
	}
	os.Exit(m.Run())
}

// runPython runs a program that writes its process ID to its log, and does not end.
func runPython(dir string) int {
	err := settings{Dir: dir}.python(context.Background(), "child", nil, "-c",
		"import os, signal; print(os.getpid(), flush=True); signal.pause()")
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func TestServiceEndsWhenItsParentIsKilled(t *testing.T) {
	t.Parallel()
	s := settings{Dir: t.TempDir()}
	if err := os.Mkdir(s.script("log"), 0o700); err != nil {
		t.Fatal(err)
	}
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+s.Dir)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var child string
	await(t, "the child writes its process ID", func() bool {
		text, _ := os.ReadFile(s.log("child")) // does not exist before the child starts
		child = strings.TrimSpace(string(text))
		return child != ""
	})
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // returns that the parent was killed
	await(t, "the child ends", func() bool { return !running(child) })
}

// running returns whether a process exists and is not only waiting for its parent to notice that it
// has ended.
func running(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	_, state, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	const interval, limit = 10 * time.Millisecond, time.Minute
	err := wait.PollUntilContextTimeout(t.Context(), interval, limit, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}
