//go:build e2e

package csiaddons

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

const (
	// tourStart bounds the time until the cluster is ready. Most of what `make run` builds exists.
	tourStart = 20 * time.Minute
	tourStop  = 2 * time.Minute
)

// printed are patterns of what docs/csi-addons/try.md promises, by a part of the command that
// prints it.
func printed() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"STATE:.status.state":              regexp.MustCompile(`^POD +STATE\n(\S+ +Connected\n)+$`),
		"kubectl get reclaimspacejob data": regexp.MustCompile(`\ndata .* Succeeded .* Reclaimed`),
		"--operation=NodeReclaimSpace":     regexp.MustCompile(`\npre_usage.usage_bytes +\d`),
		"grep -A4 ClientDetails":           regexp.MustCompile(`- 10\.100\.0\.11/32\n`),
		"reason=FailedMount":               regexp.MustCompile("access denied by server"),
	}
}

// tour is a reader of docs/csi-addons/try.md, with two terminals in the root of the repository.
type tour struct {
	*pods.Test

	folder string
	// first is the process of the first terminal, and output the file that it writes. ended is closed
	// when it has ended.
	first  *exec.Cmd
	output string
	ended  chan struct{}
	// settings is the line that sets the variables of the second terminal.
	settings string
}

// TestTryPage follows docs/csi-addons/try.md word for word. Its cluster is that of `make run`, so
// the test stops the cluster of the other tests, and fails while somebody else runs this command.
func TestTryPage(t *testing.T) {
	if running != nil {
		running.Stop()
		running = nil
	}
	r := &tour{Test: &pods.Test{T: t}, ended: make(chan struct{})}
	var err error
	r.folder, err = filepath.Abs("../../..")
	r.Must(err)
	commands := r.commands("Start a cluster")
	r.start(commands[0])
	r.settings, _, _ = strings.Cut(commands[1], "\n")
	r.run(commands[1])
	var sizes []int
	for _, heading := range []string{"Reclaim space", "Fence the node"} {
		for _, command := range r.commands(heading) {
			output := strings.TrimSpace(r.run(command))
			if strings.Contains(command, "du -m ") {
				last := output[strings.LastIndex(output, "\n")+1:]
				size, err := strconv.Atoi(strings.Fields(last)[0])
				r.Must(err)
				sizes = append(sizes, size)
			}
		}
	}
	const written, tolerance = 200, slack / mebibyte
	if len(sizes) != 2 || sizes[0]-sizes[1] < written-tolerance ||
		sizes[0]-sizes[1] > written+tolerance {
		t.Errorf("the volume takes %v MiB before and after the job, and the page deletes %d MiB", sizes,
			written)
	}
}

func (r *tour) commands(heading string) []string {
	r.T.Helper()
	page := filepath.Join(r.folder, "docs", "csi-addons", "try.md")
	commands, err := guide.Commands(page, heading)
	r.Must(err)
	return commands
}

// start runs the command of the first terminal until it prints that the cluster is ready. After the
// test it presses Ctrl-C.
func (r *tour) start(command string) {
	r.T.Helper()
	r.output = filepath.Join(r.T.TempDir(), "output")
	file, err := os.Create(r.output)
	r.Must(err)
	defer file.Close()
	r.first = exec.Command("bash", "-euc", "exec "+command) //nolint:noctx // Ctrl-C ends it
	r.first.Dir, r.first.Stdout, r.first.Stderr = r.folder, file, file
	r.first.Env = append(os.Environ(), "MAKEFLAGS=") // `make test-e2e-csi-addons` sets it
	// The process also ends if somebody kills the test. The kernel then waits for the end of a thread.
	runtime.LockOSThread()
	r.first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	r.Must(r.first.Start())
	go func() {
		defer close(r.ended)
		_ = r.first.Wait() // fails after Ctrl-C
	}()
	r.T.Cleanup(r.pressCtrlC)
	r.Within(tourStart, "the cluster is ready", func() error {
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
func (r *tour) read() string {
	r.T.Helper()
	text, err := os.ReadFile(r.output)
	r.Must(err)
	return string(text)
}

// run runs a command in the second terminal, and returns what it prints. If the output is not what
// the page promises, it repeats a command that changes nothing.
func (r *tour) run(command string) string {
	r.T.Helper()
	var output string
	try := func() error {
		var err error
		output, err = guide.Output(r.T.Context(), "cd '"+r.folder+"'\n"+r.settings+"\n"+command,
			"PATH="+os.Getenv("PATH")+":"+os.Getenv("K8S_BIN_DIR"))
		for part, want := range printed() {
			if err == nil && strings.Contains(command, part) && !want.MatchString(output) {
				err = fmt.Errorf("%s\nprints\n%s", command, output)
			}
		}
		return err
	}
	if strings.Contains(command, " create ") || strings.Contains(command, " exec ") {
		r.Must(try())
	} else {
		r.Eventually("a command prints what the page promises", try)
	}
	return output
}

// pressCtrlC ends the cluster. No process is left.
func (r *tour) pressCtrlC() {
	r.T.Helper()
	if r.T.Failed() {
		r.T.Logf("the first terminal contains\n%s", r.read())
	}
	// A terminal sends the signal to all processes of the command.
	_ = syscall.Kill(-r.first.Process.Pid, syscall.SIGINT) // fails if they have ended
	select {
	case <-r.ended:
	case <-time.After(tourStop):
		_ = syscall.Kill(-r.first.Process.Pid, syscall.SIGKILL)
		r.T.Errorf("Ctrl-C does not end the cluster:\n%s", r.read())
	}
	left := process.KillLeftovers(filepath.Join(r.folder, ".devcluster"),
		os.Getenv("K8S_BIN_DIR"), os.Getenv("BIN_DIR"))
	if left > 0 {
		r.T.Errorf("Ctrl-C leaves %d processes", left)
	}
}
