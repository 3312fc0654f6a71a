//go:build chaos

package chaos

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	address string // of the metrics

	mu      sync.Mutex
	process *process.Process
	frozen  bool
	started time.Time // of the process
}

// configure writes the configuration of an operator, which then ends to read it.
func (r *replica) configure(election string) error {
	return paths.WriteFile(r.config, []byte("apiVersion: operator.openshift.io/v1alpha1\n"+
		"kind: GenericOperatorConfig\nservingInfo:\n  bindAddress: "+r.address+
		"\nleaderElection:\n"+election))
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

// since returns when the process started.
func (r *replica) since() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started
}

// usage is what a process uses.
type usage struct {
	goroutines, memory float64 // in MB
}

// measure reads what the process uses from its metrics. The token permits to read them.
func (r *replica) measure(ctx context.Context, token string) (u usage, err error) {
	scheme := "http://"
	if r.config != "" {
		scheme = "https://"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+r.address+"/metrics", nil)
	if err != nil {
		return u, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // self-signed.
		DisableKeepAlives: true,
	}
	response, err := (&http.Client{Transport: transport, Timeout: soon}).Do(request)
	if err != nil {
		return u, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	for name, value := range map[string]*float64{
		"go_goroutines": &u.goroutines, "process_resident_memory_bytes": &u.memory,
	} {
		_, text, _ := strings.Cut(string(body), "\n"+name+" ")
		if _, missing := fmt.Sscan(text, value); missing != nil {
			err = errors.Join(err, fmt.Errorf("status %d without %s", response.StatusCode, name))
		}
	}
	u.memory /= 1_000_000
	return u, err
}
