package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// interpreter is Debian's Python, which finds its packages. Another one may come first in PATH.
const interpreter = "/usr/bin/python3"

// grace is how long a service may take to end.
const grace = 10 * time.Second

// command returns a command that runs a Python program. Its output is appended to the log of that
// name. The kernel kills it when this process ends, however it ends.
func (s settings) command(ctx context.Context, log string, arguments ...string) (
	cmd *exec.Cmd, output *os.File, err error,
) {
	output, err = os.OpenFile(s.log(log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(ctx, interpreter, arguments...)
	// The variables of OpenStack's and of Python's own must not change what the services do.
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=" + s.Dir}
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	return cmd, output, nil
}

func (s settings) log(name string) string { return filepath.Join(s.Dir, "log", name+".log") }

// python runs a Python program to its end. An error contains the end of its output.
func (s settings) python(
	ctx context.Context, log string, input io.Reader, arguments ...string,
) error {
	cmd, output, err := s.command(ctx, log, arguments...)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd.Stdin = input
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, s.tail(log))
	}
	return nil
}

func (s settings) tail(name string) string {
	const size = 2000
	text, err := os.ReadFile(s.log(name))
	if err != nil {
		return err.Error()
	}
	return s.log(name) + " ends with\n" + string(text[max(0, len(text)-size):])
}

type process struct {
	name    string
	address string
	cmd     *exec.Cmd
	ended   chan struct{}
}

// serve starts the API of a service on a socket that listens already. It ends with the context.
func (s settings) serve(
	ctx context.Context, name string, socket *net.TCPListener,
) (*process, error) {
	file, err := socket.File()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd, output, err := s.command(ctx, name, s.script("serve.py"), program(name),
		s.configuration(name))
	if err != nil {
		return nil, err
	}
	defer output.Close()
	cmd.ExtraFiles = []*os.File{file}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{name: name, address: socket.Addr().String(), cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the status does not matter: a service must not end before it is stopped
		close(p.ended)
	}()
	return p, nil
}

// packages returns the Debian packages with the services. They contain libraries only: no daemon
// starts when they are installed.
func packages() []string {
	return []string{"python3-keystone", "python3-manila", "python3-cinder", "python3-nova"}
}

// checkPackages returns an error with the command that installs the missing packages.
func checkPackages(ctx context.Context) error {
	missing, err := missingPackages(ctx)
	if len(missing) == 0 || err != nil {
		return err
	}
	return fmt.Errorf("the services of OpenStack need packages of Debian 12: run, as root, "+
		"RUNLEVEL=1 apt-get install --no-install-recommends %s", strings.Join(missing, " "))
}

// missingPackages returns the packages that are not installed.
func missingPackages(ctx context.Context) ([]string, error) {
	const format = "-f=${Package} ${db:Status-Status}\n"
	query := exec.CommandContext(ctx, "dpkg-query", append([]string{"-W", format}, packages()...)...)
	installed, err := query.Output()
	if _, unknown := errors.AsType[*exec.ExitError](err); err != nil && !unknown {
		return nil, fmt.Errorf("listing the installed packages, which takes Debian: %w", err)
	}
	return slices.DeleteFunc(packages(), func(name string) bool {
		return strings.Contains(string(installed), name+" installed\n")
	}), nil
}
