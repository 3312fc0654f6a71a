// Package tour follows pages of docs as a reader does who starts a cluster with `make run`. The
// tests in test/e2e call it.
package tour

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

const (
	// startLimit bounds the time until the cluster is ready. Most of what `make run` builds exists.
	startLimit = 20 * time.Minute
	stopLimit  = 2 * time.Minute
)

// Page is a page that describes a tour.
type Page struct {
	// Path is the file below the root of the repository.
	Path string
	// Start is the heading of the section that starts a cluster in the first terminal. The first line
	// of its second command sets the variables of the second terminal.
	Start string
	// Printed are patterns of what the page promises, by a part of the command that prints it.
	Printed map[string]*regexp.Regexp
}

// Tour is a reader of a page, with two terminals in the root of the repository.
type Tour struct {
	*pods.Test

	page   Page
	folder string
	// first is the process of the first terminal, and output the file that it writes. ended is closed
	// when it has ended.
	first    *exec.Cmd
	output   string
	ended    chan struct{}
	settings string
}

// Start starts the cluster of a page in the folder .devcluster, and stops it after the test. It
// fails while somebody else runs `make run` in the repository.
func Start(t *testing.T, page Page) *Tour {
	t.Helper()
	r := &Tour{Test: &pods.Test{T: t}, page: page, ended: make(chan struct{})}
	var err error
	r.folder, err = filepath.Abs("../../..")
	r.Must(err)
	commands := r.commands(page.Start)
	r.start(commands[0])
	r.settings, _, _ = strings.Cut(commands[1], "\n")
	for _, command := range commands[1:] {
		r.run(command)
	}
	return r
}

// Follow runs the commands of a section, and returns what each of them prints.
func (r *Tour) Follow(heading string) (commands, outputs []string) {
	r.T.Helper()
	commands = r.commands(heading)
	for _, command := range commands {
		outputs = append(outputs, r.run(command))
	}
	return commands, outputs
}

func (r *Tour) commands(heading string) []string {
	r.T.Helper()
	commands, err := guide.Commands(filepath.Join(r.folder, r.page.Path), heading)
	r.Must(err)
	return commands
}

// start runs the command of the first terminal until it prints that the cluster is ready. After the
// test it presses Ctrl-C.
func (r *Tour) start(command string) {
	r.T.Helper()
	r.output = filepath.Join(r.T.TempDir(), "output")
	file, err := os.Create(r.output)
	r.Must(err)
	defer file.Close()
	r.first = exec.Command("bash", "-euc", "exec "+command) //nolint:noctx // Ctrl-C ends it
	r.first.Dir, r.first.Stdout, r.first.Stderr = r.folder, file, file
	r.first.Env = append(os.Environ(), "MAKEFLAGS=") // the target of the test sets it
	// The process also ends if somebody kills the test. The kernel then waits for the end of a thread.
	runtime.LockOSThread()
	r.first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	r.Must(r.first.Start())
	go func() {
		defer close(r.ended)
		_ = r.first.Wait() // fails after Ctrl-C
	}()
	r.T.Cleanup(r.pressCtrlC)
	r.Within(startLimit, "the cluster is ready", func() error {
		select {
		case <-r.ended:
			r.T.Fatalf("the command ends: %s", command)
		default:
		}
		if !strings.Contains(r.read(), "ready after") {
			return errors.New("the first terminal does not say so")
		}
		return nil
	})
}

// read returns what the first terminal contains.
func (r *Tour) read() string {
	r.T.Helper()
	text, err := os.ReadFile(r.output)
	r.Must(err)
	return string(text)
}

// run runs a command in the second terminal, and returns what it prints. If the output is not what
// the page promises, it repeats a command that changes nothing.
func (r *Tour) run(command string) string {
	r.T.Helper()
	var output string
	try := func() error {
		var err error
		output, err = guide.Output(r.T.Context(), "cd '"+r.folder+"'\n"+r.settings+"\n"+command,
			"PATH="+os.Getenv("PATH")+":"+os.Getenv("K8S_BIN_DIR"))
		for part, want := range r.page.Printed {
			if err == nil && strings.Contains(command, part) && !want.MatchString(output) {
				err = fmt.Errorf("%s\nprints\n%s", command, output)
			}
		}
		return err
	}
	if changes := regexp.MustCompile(` (create|exec|cloud|rotate) `); changes.MatchString(command) {
		r.Must(try())
	} else {
		r.Eventually("a command prints what the page promises", try)
	}
	r.T.Logf("%s\n%s", command, output)
	return output
}

// pressCtrlC ends the cluster. No process is left.
func (r *Tour) pressCtrlC() {
	r.T.Helper()
	if r.T.Failed() {
		r.T.Logf("the first terminal contains\n%s", r.read())
	}
	// A terminal sends the signal to all processes of the command.
	_ = syscall.Kill(-r.first.Process.Pid, syscall.SIGINT) // fails if they have ended
	select {
	case <-r.ended:
	case <-time.After(stopLimit):
		_ = syscall.Kill(-r.first.Process.Pid, syscall.SIGKILL)
		r.T.Errorf("Ctrl-C does not end the cluster:\n%s", r.read())
	}
	left := process.KillLeftovers(filepath.Join(r.folder, ".devcluster"),
		os.Getenv("K8S_BIN_DIR"), os.Getenv("BIN_DIR"))
	assert.Check(r.T, left <= 0, "Ctrl-C leaves %d processes", left)
}
