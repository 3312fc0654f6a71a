// Package site has what the suites of tests on real API servers share: their folders, a pool of
// clusters, and the reset of a cluster. test/integration and test/csiaddons use it.
package site

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"gotest.tools/v3/assert"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// Folders are the folders of a suite. Dir contains all state and logs, Bin the programs of this
// repository, and Kubernetes those of Kubernetes.
type Folders struct{ Dir, Bin, Kubernetes string }

// Run calls run, which returns the exit code, with a new folder. It keeps the folder if the code is
// not 0. The variables BIN_DIR and K8S_BIN_DIR are the folders of the programs.
func Run(name string, run func(Folders) int) int {
	log.SetLogger(logr.Discard())  // envtest's messages repeat errors
	klog.SetLogger(logr.Discard()) // informers repeat that an API server is stopped
	f, err := newFolders(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	process.KillOnSignal(f.Dir, f.Kubernetes, f.Bin)
	code := run(f)
	if code != 0 {
		fmt.Fprintln(os.Stderr, "All logs are kept in", f.Dir)
		return code
	}
	_ = os.RemoveAll(f.Dir)
	return code
}

func newFolders(name string) (f Folders, err error) {
	// Control planes use most of the CPU time. With four times the memory they use a quarter less.
	if err := os.Setenv("GOGC", "400"); err != nil {
		return f, err
	}
	if f.Bin, err = filepath.Abs(cmp.Or(os.Getenv("BIN_DIR"), "../../bin")); err != nil {
		return f, err
	}
	f.Kubernetes, err = filepath.Abs(cmp.Or(os.Getenv("K8S_BIN_DIR"), "../../bin/k8s"))
	if err == nil {
		f.Dir, err = os.MkdirTemp("", name+"-")
	}
	return f, err
}

// Cluster is what tests borrow from a Pool.
type Cluster interface {
	fmt.Stringer
	// Prepare starts the cluster, or resets it if it runs already.
	Prepare(ctx context.Context) error
	// Stop stops it, if it runs.
	Stop()
}

// Pool contains clusters that tests share. Each starts when a test first needs it.
type Pool[C Cluster] struct {
	all          []C
	used, unused chan C // those that no test uses now
}

// NewPool returns a pool of clusters that do not run yet.
func NewPool[C Cluster](all []C) *Pool[C] {
	p := &Pool[C]{all, make(chan C, len(all)), make(chan C, len(all))}
	for _, one := range all {
		p.unused <- one
	}
	return p
}

// Borrow waits for a cluster, prepares it, and returns it to the pool when the test ends. It
// prefers one that runs already.
func (p *Pool[C]) Borrow(t *testing.T) C {
	t.Helper()
	requested := time.Now()
	borrowed := p.take()
	began := time.Now()
	t.Cleanup(func() {
		t.Logf("used %s for %.1f s, after waiting %.1f s",
			borrowed, time.Since(began).Seconds(), began.Sub(requested).Seconds())
		p.used <- borrowed
	})
	assert.NilError(t, borrowed.Prepare(t.Context()))
	return borrowed
}

func (p *Pool[C]) take() C {
	select {
	case c := <-p.used:
		return c
	default:
	}
	select {
	case c := <-p.used:
		return c
	case c := <-p.unused:
		return c
	}
}

// Stop stops all clusters. It must be called after all tests.
func (p *Pool[C]) Stop() {
	var stopping sync.WaitGroup
	for _, one := range p.all {
		stopping.Go(one.Stop)
	}
	stopping.Wait()
}
