//go:build integration

package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// stopBound is how long the operator may take to end after SIGTERM. In a pod it has 30 s.
const stopBound = 15 * time.Second

// process is one run of a program.
type process struct {
	cmd     *exec.Cmd
	started stopwatch
	done    chan struct{}
	err     error // of Wait, valid after done is closed
	logPath string
	// logged is the length of the log when the process started.
	logged int
}

// startProcess starts a command and appends its output to the log.
func startProcess(cmd *exec.Cmd, logPath string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	p := &process{
		cmd: cmd, started: startWatch(), done: make(chan struct{}),
		logPath: logPath, logged: int(info.Size()),
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// running returns true until the process has ended.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait waits until the process ends and returns its exit code.
func (p *process) wait(bound time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(bound):
		return -1, fmt.Errorf("the operator did not end within %v", bound)
	}
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// operatorArgs returns the arguments of the operator's Deployment, with paths of this machine.
func (e *env) operatorArgs() []string {
	args := []string{
		"start", "-v=2",
		"--config=" + e.configPath,
		"--terminate-on-files=" + e.configPath,
		"--kubeconfig=" + e.podDir.Kubeconfig(e.subject.Name),
		"--namespace=" + e.management.namespace,
	}
	if e.flavour == flavour.HyperShift {
		args = append(args,
			"--guest-kubeconfig="+e.podDir.GuestKubeconfig(), "--cloud-ca-file="+e.caBundlePath)
	}
	if e.options.PollInterval != 0 {
		args = append(args, "--poll-interval="+e.options.PollInterval.String())
	}
	return append(args, e.options.Args...)
}

// operatorEnv returns the environment of the operator's Deployment and the variables that every
// program needs. Later entries win.
func (e *env) operatorEnv() []string {
	variables := e.subject.Env()
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCOVERDIR"} {
		if value, found := os.LookupEnv(name); found {
			variables = append(variables, name+"="+value)
		}
	}
	variables = append(variables, "OS_CLIENT_CONFIG_FILE="+e.cloudsPath)
	return append(variables, e.options.Env...)
}

// startOperator starts the operator. All runs of a test append to the same log.
func (e *env) startOperator() *process {
	e.t.Helper()
	e.operator = e.launch(e.operatorArgs(), e.operatorEnv())
	return e.operator
}

// launch starts the operator's program with the arguments.
func (e *env) launch(args, environment []string) *process {
	e.t.Helper()
	program := filepath.Join(e.bin, e.subject.Program)
	cmd := exec.Command(program, args...) //nolint:noctx // it ends by SIGTERM, after the context.
	cmd.Env = environment
	p, err := startProcess(cmd, e.logPath())
	e.must(err)
	return p
}

// stopOperator sends SIGTERM, as the kubelet does. It fails the test if the operator ended before
// or does not end with code 0.
func (e *env) stopOperator() {
	e.t.Helper()
	p := e.operator
	e.operator = nil
	if p == nil {
		return
	}
	if !p.running() {
		e.t.Errorf("the operator ended unexpectedly: %v", p.err)
		return
	}
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		e.t.Errorf("stopping the operator: %v", err)
	}
	code, err := p.wait(stopBound)
	if err != nil {
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // writes its stacks into the log
		p.kill()
		e.t.Errorf("%v after SIGTERM", err)
		return
	}
	if code != 0 {
		e.t.Errorf("the operator ended with code %d after SIGTERM, want 0", code)
	}
}

// restartOperator stops the operator and starts a new process, as a rollout does.
func (e *env) restartOperator() {
	e.t.Helper()
	e.stopOperator()
	e.startOperator()
}

// awaitEnd waits until the operator ends with code 0 without a signal, as it does when a file that
// it has read changes.
func (e *env) awaitEnd(bound time.Duration) {
	e.t.Helper()
	p := e.operator
	e.operator = nil // expected to end
	code, err := p.wait(bound)
	e.must(err)
	if code != 0 {
		e.t.Errorf("the operator ended with code %d, want 0", code)
	}
}

// mustStillRun fails the test if p is no longer the running operator.
func (e *env) mustStillRun(p *process) {
	e.t.Helper()
	if p != e.operator || !p.running() {
		e.t.Error("the operator process ended during the test")
	}
}

// log returns the log of all operator processes of this test.
func (e *env) log() string {
	text, err := os.ReadFile(e.logPath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		e.t.Errorf("reading the operator's log: %v", err)
	}
	return string(text)
}

// address returns the address of the operator's HTTPS server, which is in its log.
func (e *env) address() (string, error) {
	if e.operator == nil {
		return "", errors.New("no operator is running")
	}
	const message = `"Serving health and metrics" address="`
	_, rest, _ := strings.Cut(e.log()[e.operator.logged:], message)
	address, _, found := strings.Cut(rest, `"`)
	if !found {
		return "", errors.New("the operator does not serve yet")
	}
	return address, nil
}

func (e *env) logPath() string { return filepath.Join(e.dir, "operator.log") }

// runOperator runs Manila's operator until it ends.
func runOperator(
	t *testing.T, bound time.Duration, environment []string, args ...string,
) (int, string) {
	t.Helper()
	return runProgram(t, manila().Program, bound, environment, args...)
}

// runProgram runs an operator's program until it ends without a signal. It returns the exit code
// and the output.
func runProgram(
	t *testing.T, program string, bound time.Duration, environment []string, args ...string,
) (int, string) {
	t.Helper()
	var output bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(shared.bin, program), args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &output, &output, environment
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(bound, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("running the operator: %v", err)
	}
	code := cmd.ProcessState.ExitCode()
	if code < 0 {
		t.Fatalf("the operator did not end within %v:\n%s", bound, output.String())
	}
	return code, output.String()
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
