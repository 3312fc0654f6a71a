package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	t.Parallel()
	p, err := Start(Options{
		Name: "shell", Path: "/bin/sh", Log: filepath.Join(t.TempDir(), "shell.log"),
		Args: []string{"-c", `trap "" TERM QUIT; echo ready; while :; do sleep 0.1; done`},
	})
	assert.NilError(t, err)
	t.Cleanup(func() { p.Stop(0) })
	for Tail(p.opts.Log) == "" { // the trap is not set yet
		<-time.After(10 * time.Millisecond)
	}
	if p.Stop(100*time.Millisecond) || p.Running() || p.Err() == nil {
		t.Errorf("the process was not killed: %v", p.Err())
	}
	assert.Check(t, p.Stop(time.Second), "stopping an ended process timed out")
}

func TestLeftoversAreKilled(t *testing.T) {
	t.Parallel()
	bin, dir := t.TempDir(), t.TempDir()
	content, err := os.ReadFile("/bin/sleep")
	assert.NilError(t, err)
	program := filepath.Join(bin, "sleep")
	assert.NilError(t, WriteProgram(program, content))
	start := func(path, folder string) *exec.Cmd {
		// The folder is argument zero: sleep takes only numbers.
		cmd := &exec.Cmd{Path: path, Args: []string{folder + "/x", "600"}}
		assert.NilError(t, cmd.Start())
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
		assert.Check(t, cmd.Process.Signal(syscall.Signal(0)), "the process %s is gone", name)
	}
}
