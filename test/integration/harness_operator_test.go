//go:build integration

package integration

import (
	"errors"
	"os"
	"strings"
	"time"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/devcluster/operator"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// stopBound is how long the operator may take to end after SIGTERM: as long as in a pod.
const stopBound = 30 * time.Second

type operatorRun struct {
	*process.Process

	// logged is the length of the log when the process started.
	logged int
}

// runner returns how the operator's Deployment runs it, with the files of this test.
func (e *env) runner() operator.Runner {
	return operator.Runner{
		Operator: e.subject.Operator, Guest: e.running.Environments()[0].Guest,
		Bin: shared.Bin, Dir: e.files,
		Env: e.subject.Env(),
	}
}

// operatorArgs returns the arguments of the operator's Deployment, with paths of this machine. In a
// hosted control plane the operator logs as much as it can.
func (e *env) operatorArgs() []string {
	args := e.runner().Args()
	if e.isHosted() {
		args = append(args, "-v=10")
	}
	if e.options.PollInterval != 0 {
		args = append(args, "--poll-interval="+e.options.PollInterval.String())
	}
	return append(args, e.options.Args...)
}

// operatorEnv returns the environment of the operator's Deployment and the variables that every
// program needs. Later entries win.
func (e *env) operatorEnv() []string {
	return append(e.runner().Environment("GOGC"), e.options.Env...)
}

// startOperator starts the operator. All processes of a test append to the same log.
func (e *env) startOperator() {
	e.t.Helper()
	run := &operatorRun{logged: len(e.log())}
	run.Process = e.startProgram(process.Options{
		Name: "the operator", Path: e.runner().Path(), Args: e.operatorArgs(), Env: e.operatorEnv(),
		Log: e.runner().Log(),
	})
	e.operator = run
}

func (s *scope) startProgram(o process.Options) *process.Process {
	s.t.Helper()
	p, err := process.Start(o)
	s.must(err)
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
	if !p.Running() {
		e.t.Errorf("the operator ended unexpectedly: %v", p.Err())
		return
	}
	if !p.Stop(stopBound) {
		e.t.Errorf("the operator did not end within %v after SIGTERM", stopBound)
	} else if err := p.Err(); err != nil {
		e.t.Errorf("the operator ended with %v after SIGTERM, want code 0", err)
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
func (e *env) awaitEnd() {
	e.t.Helper()
	p := e.operator
	e.operator = nil // expected to end
	code, err := p.Wait(cleanUp)
	e.must(err)
	assert.Check(e.t, code == 0, "the operator ended with code %d, want 0", code)
}

// mustStillRun fails the test if p is no longer the running operator.
func (e *env) mustStillRun(p *operatorRun) {
	e.t.Helper()
	assert.Check(e.t, p == e.operator && p.Running(), "the operator process ended during the test")
}

// log returns the log of all operator processes of this test.
func (e *env) log() string {
	text, err := os.ReadFile(e.runner().Log())
	assert.Check(e.t, err == nil || errors.Is(err, os.ErrNotExist),
		"reading the operator's log: %v", err)
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

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
