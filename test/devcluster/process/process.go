// Package process runs a child program and writes its output to a log file. Packages controlplane
// and operator start with it what envtest does not start.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Options describes the program to run.
type Options struct {
	// Name names the process in errors.
	Name string
	// Path is the program, Args its arguments.
	Path string
	Args []string
	// Env is the environment. Nil means the environment of this process.
	Env []string
	// Log is the file that receives the output. It is appended to.
	Log string
}

// Process is a running (or ended) child.
type Process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid once done is closed
}

// Start starts the program in a process group of its own, so that Ctrl-C in a terminal reaches only
// the parent, which then stops its children in order.
func Start(o Options) (*Process, error) {
	out, err := OpenLog(o.Log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(o.Path, o.Args...)
	cmd.Env = o.Env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", o.Name, err)
	}
	p := &Process{name: o.Name, log: o.Log, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// OpenLog opens a log file for appending and makes its folder.
func OpenLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the log folder: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return f, nil
}

// Name returns the name in Options.
func (p *Process) Name() string { return p.name }

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Succeeded returns whether the process ended with status 0. Call it only after Done is closed.
func (p *Process) Succeeded() bool { return p.err == nil }

// ExitError returns the exit status, with the end of the log. Call it only after Done is closed.
func (p *Process) ExitError() error {
	how := errors.New("exit status 0")
	if p.err != nil {
		how = p.err
	}
	return WithLog(fmt.Errorf("%s ended: %w", p.name, how), p.log)
}

// Stop sends SIGTERM to the process, and kills it after the grace period. It does nothing if the
// process has ended.
func (p *Process) Stop(grace time.Duration) {
	select {
	case <-p.done:
		return
	default:
	}
	// An error means that the process has just ended.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
