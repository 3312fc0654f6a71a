// Package process runs a child program and writes its output to a log file. It starts everything
// that envtest does not start: Kubernetes components, operators and scripts.
package process

import (
	"bytes"
	"fmt"
	"io"
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

// stackTime is how long a program that ignores SIGTERM may write its stacks.
const stackTime = time.Second

// Process is a running (or ended) child.
type Process struct {
	opts Options
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
	p := &Process{opts: o, cmd: cmd, done: make(chan struct{})}
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

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running returns true until the process has ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err returns nil while the process runs, and if it has ended with status 0.
func (p *Process) Err() error {
	if p.Running() {
		return nil
	}
	return p.err
}

// Wait waits until the process ends and returns its exit status.
func (p *Process) Wait(limit time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return -1, fmt.Errorf("%s did not end within %v", p.opts.Name, limit)
	}
}

// ExitError returns the exit status, with the end of the log. Call it only after Done is closed.
func (p *Process) ExitError() error {
	return WithLog(fmt.Errorf("%s ended: %v", p.opts.Name, p.cmd.ProcessState), p.opts.Log)
}

// Stop sends SIGTERM to the process and waits until it ends. After the grace period it lets a Go
// program write its stacks into the log, kills the process and returns false.
func (p *Process) Stop(grace time.Duration) bool {
	// An error means that the process has ended, here and below.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if _, err := p.Wait(grace); err == nil {
		return true
	}
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	_, _ = p.Wait(stackTime)
	p.Kill()
	return false
}

// Kill ends the process with SIGKILL.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

const (
	tailLines = 15
	tailBytes = 16 << 10
)

// WithLog adds the end of a log file to an error.
func WithLog(err error, log string) error {
	tail := Tail(log)
	if tail == "" {
		return fmt.Errorf("%w (its log %s is empty)", err, log)
	}
	return fmt.Errorf("%w\n--- the end of %s:\n%s", err, log, tail)
}

// Tail returns the last lines of a file. It returns nothing if the file cannot be read, because it
// only adds to another error.
func Tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// WriteProgram writes a file that this process executes later. No other goroutine starts a process
// meanwhile: such a process would have the file open for writing for a moment, and the kernel does
// not execute a file that is open for writing.
func WriteProgram(path string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, content, 0o755); err != nil {
		return fmt.Errorf("writing a program: %w", err)
	}
	return nil
}
