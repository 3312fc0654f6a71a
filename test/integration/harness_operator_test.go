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

// stopBound is how long the operator may take to end after SIGTERM; its pod would get 30 s.
const stopBound = 15 * time.Second

// process is one run of the operator.
type process struct {
	cmd     *exec.Cmd
	started stopwatch
	done    chan struct{}
	err     error // of its end; valid when done is closed
	logPath string
	// logged is how long the log was when the process started.
	logged int
}

// operatorArgs are the arguments of the operator's Deployment, with files of this machine.
func (e *env) operatorArgs() []string {
	args := []string{
		"start", "-v=2",
		"--config=" + e.configPath,
		"--terminate-on-files=" + e.configPath,
		"--kubeconfig=" + e.kubeconfig(e.subject.name),
		"--namespace=" + e.management.namespace,
	}
	if e.flavour == flavour.HyperShift {
		args = append(args, "--guest-kubeconfig="+e.guestKubeconfig(), "--cloud-ca-file="+e.caBundlePath)
	}
	if e.options.PollInterval != 0 {
		args = append(args, "--poll-interval="+e.options.PollInterval.String())
	}
	return append(args, e.options.Args...)
}

// operatorEnv is the environment of the operator's Deployment, and what a program needs to run at all. Later entries win.
func (e *env) operatorEnv() []string {
	variables, err := e.environment(e.subject.name)
	e.must(err)
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCOVERDIR"} {
		if value, found := os.LookupEnv(name); found {
			variables = append(variables, name+"="+value)
		}
	}
	variables = append(variables, "OS_CLIENT_CONFIG_FILE="+e.cloudsPath)
	return append(variables, e.options.Env...)
}

// startOperator starts the operator. Its log is one file for all runs of a test.
func (e *env) startOperator() *process {
	e.t.Helper()
	p := e.launch(e.operatorArgs(), e.operatorEnv())
	e.operator = p
	return p
}

// launch starts the operator's program with any arguments.
func (e *env) launch(args, environment []string) *process {
	e.t.Helper()
	p := &process{done: make(chan struct{}), logPath: e.logPath(), logged: len(e.log())}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		e.t.Fatalf("opening the operator's log: %v", err)
	}
	defer log.Close()
	p.cmd = exec.Command(filepath.Join(e.bin, e.subject.program), args...) //nolint:noctx // it ends by SIGTERM, after the test's context.
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = log, log, environment
	p.started = startWatch()
	if err := p.cmd.Start(); err != nil {
		e.t.Fatalf("starting the operator: %v", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p
}

// running tells whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait waits for the end and returns the exit code.
func (p *process) wait(bound time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(bound):
		return -1, fmt.Errorf("the operator has not ended within %v", bound)
	}
}

// kill ends the process as a crashing node would: without a word.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// stopOperator stops the operator as the kubelet does, and fails the test if it does not end well.
func (e *env) stopOperator() {
	e.t.Helper()
	p := e.operator
	e.operator = nil
	if p == nil {
		return
	}
	if !p.running() {
		e.t.Errorf("the operator ended by itself: %v", p.err)
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		e.t.Errorf("stopping the operator: %v", err)
	}
	code, err := p.wait(stopBound)
	if err != nil {
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its stacks are in the log then
		p.kill()
		e.t.Errorf("%v of SIGTERM", err)
		return
	}
	if code != 0 {
		e.t.Errorf("the operator ended with code %d after SIGTERM, want 0", code)
	}
}

// restartOperator stops the operator and starts a new one, as a rollout does.
func (e *env) restartOperator() {
	e.t.Helper()
	e.stopOperator()
	e.startOperator()
}

// awaitEnd waits until the operator ends by itself and well, as it does when a file that it has read changes.
func (e *env) awaitEnd(bound time.Duration) {
	e.t.Helper()
	p := e.operator
	e.operator = nil // its end is wanted
	code, err := p.wait(bound)
	e.must(err)
	if code != 0 {
		e.t.Errorf("the operator ended with code %d, want 0", code)
	}
}

// awaitRestart is awaitEnd, and has the operator run again, as the kubelet does.
func (e *env) awaitRestart(bound time.Duration) {
	e.t.Helper()
	e.awaitEnd(bound)
	e.startOperator()
}

// log returns all that the operators of this test have logged.
func (e *env) log() string {
	text, err := os.ReadFile(e.logPath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		e.t.Errorf("reading the operator's log: %v", err)
	}
	return string(text)
}

// address returns where the operator serves, which its log tells.
func (e *env) address() (string, error) {
	if e.operator == nil {
		return "", errors.New("no operator runs")
	}
	_, rest, _ := strings.Cut(e.log()[e.operator.logged:], `"Serving health and metrics" address="`)
	address, _, found := strings.Cut(rest, `"`)
	if !found {
		return "", errors.New("the operator does not serve yet")
	}
	return address, nil
}

func (e *env) logPath() string { return filepath.Join(e.dir, "operator.log") }

// runOperator is runProgram of Manila's operator.
func runOperator(t *testing.T, bound time.Duration, environment []string, args ...string) (int, string) {
	t.Helper()
	return runProgram(t, manila().program, bound, environment, args...)
}

// runProgram runs an operator's program to its end, which must come by itself, and returns its exit code and output.
func runProgram(t *testing.T, program string, bound time.Duration, environment []string, args ...string) (int, string) {
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
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, output.String()
	}
	t.Fatalf("the operator did not end by itself within %v:\n%s", bound, output.String())
	return -1, ""
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
