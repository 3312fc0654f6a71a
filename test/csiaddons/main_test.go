//go:build integration

// Package csiaddons tests CSI-Addons on real Kubernetes API servers. `make test-csi-addons` runs
// it. The variable K8S_BIN_DIR is the folder of the Kubernetes programs.
//
// Tests run in parallel and share clusters: a test waits until one is free, and resets it. The flag
// -clusters sets their number; each starts when a test first needs it.
package csiaddons

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// free contains the clusters that no test uses. TestMain sets it before any test runs.
var free chan *cluster //nolint:gochecknoglobals // TestMain cannot pass values to tests.

func TestMain(m *testing.M) {
	number := flag.Int("clusters", 3, "maximum number of clusters")
	flag.Parse()
	log.SetLogger(logr.Discard())  // envtest's messages repeat errors
	klog.SetLogger(logr.Discard()) // informers repeat that a CRD is missing
	code, err := withClusters(max(1, *number), m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// withClusters runs the tests and stops the clusters. It keeps the logs if a test failed.
func withClusters(number int, run func() int) (int, error) {
	// Control planes use most of the CPU time. With four times the memory they use a quarter less.
	if err := os.Setenv("GOGC", "400"); err != nil {
		return 1, err
	}
	programs, err := filepath.Abs(cmp.Or(os.Getenv("K8S_BIN_DIR"), "../../bin/k8s"))
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "csi-addons-")
	if err != nil {
		return 1, err
	}
	process.KillOnSignal(dir, programs)
	free = make(chan *cluster, number)
	for i := range number {
		free <- &cluster{dir: paths.Dir(filepath.Join(dir, strconv.Itoa(i))), kubernetes: programs}
	}
	code := run()
	close(free)
	var stopping sync.WaitGroup
	for c := range free {
		if c.plane != nil {
			stopping.Go(c.plane.Stop)
		}
	}
	stopping.Wait()
	if code != 0 {
		return code, fmt.Errorf("all logs are kept in %s", dir)
	}
	return code, os.RemoveAll(dir)
}

// cluster is a control plane that tests share.
type cluster struct {
	dir        paths.Dir
	kubernetes string // the folder of the programs

	plane   *controlplane.ControlPlane // nil until a test starts it
	config  *rest.Config
	client  client.Client
	dynamic dynamic.Interface
	// baseline contains the objects that no test has created.
	baseline map[string]bool
}

func (c *cluster) start(ctx context.Context) error {
	if err := c.dir.Clear(); err != nil {
		return err
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Binaries: c.kubernetes,
		Dir:      filepath.Join(c.dir.ControlPlanes(), "main"), Logs: c.dir.Logs(),
		AuditLog: c.dir.AuditLog(), Kubeconfig: c.dir.AdminKubeconfig(),
		Stages: filepath.Join(c.kubernetes, "manifests", "stages"),
		CRDs:   []string{filepath.Join(c.kubernetes, "manifests", "crds")},
	})
	if err != nil {
		return err
	}
	c.plane = plane
	if err = c.connect(ctx); err != nil {
		plane.Stop()
		c.plane = nil
	}
	return err
}

// connect creates the clients, and records the baseline.
func (c *cluster) connect(ctx context.Context) error {
	c.config = c.plane.Config()
	fast := c.plane.Config()
	fast.QPS = -1
	known := runtime.NewScheme()
	err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known),
		apiextensionsv1.AddToScheme(known))
	if err != nil {
		return err
	}
	if c.client, err = client.New(fast, client.Options{Scheme: known}); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfig(fast); err != nil {
		return err
	}
	added, err := c.added(ctx)
	c.baseline = map[string]bool{}
	for _, one := range added {
		c.baseline[one.String()] = true
	}
	return err
}
