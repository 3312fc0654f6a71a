//go:build chaos

package chaos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// restartDelay is how long a process that has ended stays away.
const restartDelay = 300 * time.Millisecond

// program is an operator, or the controller of CSI-Addons. One of its replicas leads.
type program struct {
	name     string
	replicas []*replica

	// side has its ServiceAccount. tokens is the number of tokens so far.
	side               *side
	namespace, account string
	tokens             int
}

// replica is one pod of a program, as a process of this machine.
type replica struct {
	program *program
	name    string
	options process.Options
	config  string // the path of the configuration of an operator
	metrics string // the URL of the metrics; an operator logs the address

	mu      sync.Mutex
	process *process.Process
	logged  int64 // the length of the log when the process started
	frozen  bool
	started time.Time // of the process
}

// configure writes the configuration of an operator, which then ends to read it.
func (r *replica) configure(election string) error {
	return paths.WriteFile(r.config, []byte("apiVersion: operator.openshift.io/v1alpha1\n"+
		"kind: GenericOperatorConfig\nservingInfo:\n  bindAddress: 127.0.0.1:0\n"+
		"leaderElection:\n"+election))
}

// run starts the process again whenever it ends, until ctx is done.
func (r *replica) run(ctx context.Context) error {
	for ctx.Err() == nil {
		p, err := r.start()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			r.thaw()
			p.Stop(stopGrace)
		case <-p.Done():
			select {
			case <-ctx.Done():
			case <-time.After(restartDelay):
			}
		}
	}
	return nil
}

func (r *replica) start() (*process.Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logged = 0
	if info, err := os.Stat(r.options.Log); err == nil {
		r.logged = info.Size()
	}
	p, err := process.Start(r.options)
	r.process, r.frozen, r.started = p, false, time.Now()
	return p, err
}

// running returns the process, or nil if there is none, or if it is frozen.
func (r *replica) running() *process.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil || r.frozen || !r.process.Running() {
		return nil
	}
	return r.process
}

// kill ends the process without a warning.
func (r *replica) kill() {
	if p := r.running(); p != nil {
		p.Kill()
	}
}

func (r *replica) freeze() error {
	p := r.running()
	if p == nil {
		return errors.New("the replica does not run")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
	return syscall.Kill(p.PID(), syscall.SIGSTOP)
}

func (r *replica) thaw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen {
		_ = syscall.Kill(r.process.PID(), syscall.SIGCONT) // it may have ended
		r.frozen = false
	}
}

// log returns what the current process has logged.
func (r *replica) log() (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := os.ReadFile(r.options.Log)
	return string(text[min(int64(len(text)), r.logged):]), err
}

// usage is what a process uses.
type usage struct {
	pid        int
	goroutines int
	memory     int // in MB
}

// measure reads what the process with an ID uses. The token permits to read its metrics.
func (r *replica) measure(ctx context.Context, pid int, token string) (usage, error) {
	u := usage{pid: pid}
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(u.pid), "statm"))
	if err != nil {
		return u, err
	}
	var total, resident int
	if _, err := fmt.Sscan(string(text), &total, &resident); err != nil {
		return u, err
	}
	u.memory = resident * os.Getpagesize() / 1_000_000
	url := r.metrics
	if url == "" {
		logged, err := r.log()
		if err != nil {
			return u, err
		}
		_, address, _ := strings.Cut(logged, `"Serving health and metrics" address="`)
		address, _, _ = strings.Cut(address, `"`)
		url = "https://" + address + "/metrics"
	}
	u.goroutines, err = goroutines(ctx, url, token)
	return u, err
}

// goroutines reads the number of goroutines from the metrics of a program.
func goroutines(ctx context.Context, url, token string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // self-signed.
		DisableKeepAlives: true,
	}
	response, err := (&http.Client{Transport: transport, Timeout: soon}).Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	_, value, found := strings.Cut(string(body), "\ngo_goroutines ")
	if !found {
		return 0, fmt.Errorf("status %d without go_goroutines", response.StatusCode)
	}
	var number int
	_, err = fmt.Sscan(value, &number)
	return number, err
}

// since returns when the process started.
func (r *replica) since() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started
}
