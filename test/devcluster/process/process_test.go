package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Options{
		Name: "shell", Path: "/bin/sh", Args: []string{"-c", script},
		Env: append(os.Environ(), "WORD=salad"),
		Log: filepath.Join(t.TempDir(), "logs", "shell.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0) })
	return p
}

func waitDone(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the process did not end")
	}
}

func TestExitErrorShowsTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	p := shell(t,
		`i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); done; echo "$WORD" >&2; exit 3`)
	waitDone(t, p)
	got := p.ExitError().Error()
	for _, want := range []string{"shell ended: exit status 3", "line 39\nsalad"} {
		if !strings.Contains(got, want) {
			t.Errorf("error lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "line 20\n") {
		t.Errorf("error shows more than the end of the log:\n%s", got)
	}
}

func TestExitErrorOfSuccess(t *testing.T) {
	t.Parallel()
	p := shell(t, "exit 0")
	waitDone(t, p)
	if got := p.ExitError().Error(); !strings.Contains(got, "exit status 0") {
		t.Errorf("error %q does not say how it ended", got)
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	t.Parallel()
	p := shell(t, `trap "" TERM; while :; do sleep 0.1; done`)
	p.Stop(100 * time.Millisecond)
	waitDone(t, p)
	p.Stop(time.Second) // again does nothing
}

func TestKillLeftovers(t *testing.T) {
	t.Parallel()
	bin, dir := t.TempDir(), t.TempDir()
	content, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(bin, "sleep")
	if err := os.WriteFile(program, content, 0o755); err != nil {
		t.Fatal(err)
	}
	start := func(path, folder string) *exec.Cmd {
		// The folder is argument zero: sleep takes only numbers.
		cmd := &exec.Cmd{Path: path, Args: []string{folder + "/x", "600"}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	mine := start(program, dir)
	other := start(program, dir+"-other")
	foreign := start("/bin/sleep", dir)
	if got := Find(dir, program); len(got) != 1 || got[0] != mine.Process.Pid {
		t.Errorf("found %d, want %d", got, mine.Process.Pid)
	}
	if got := KillLeftovers(dir, bin); got != 1 {
		t.Errorf("killed %d processes, want 1", got)
	}
	if err := mine.Wait(); err == nil {
		t.Error("the leftover was not killed")
	}
	for name, cmd := range map[string]*exec.Cmd{
		"of another folder": other, "of another program": foreign,
	} {
		if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the process %s is gone: %v", name, err)
		}
	}
}
