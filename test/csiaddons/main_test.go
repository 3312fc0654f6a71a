//go:build integration

// Package csiaddons tests CSI-Addons on a real Kubernetes API server. `make test-csi-addons` runs
// it. The variable K8S_BIN_DIR is the folder of the Kubernetes programs.
package csiaddons

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())  // envtest's messages repeat errors
	klog.SetLogger(logr.Discard()) // informers repeat that a CRD is missing
	os.Exit(m.Run())
}

// cluster is a running control plane without CRDs of CSI-Addons.
type cluster struct {
	*testing.T

	config     *rest.Config
	dynamic    dynamic.Interface
	kubernetes string // the folder of the programs
	kubeconfig string
	auditLog   string
	plane      *controlplane.ControlPlane
}

// startCluster starts a control plane, which stops when the test ends.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t}
	programs, err := filepath.Abs(cmp.Or(os.Getenv("K8S_BIN_DIR"), "../../bin/k8s"))
	c.must(err)
	c.kubernetes = programs
	dir := paths.Dir(filepath.Join(t.TempDir(), "cluster"))
	c.must(dir.Clear())
	c.kubeconfig, c.auditLog = dir.AdminKubeconfig(), dir.AuditLog()
	c.plane, err = controlplane.Start(t.Context(), controlplane.Options{
		Binaries: programs,
		Dir:      filepath.Join(dir.ControlPlanes(), "main"), Logs: dir.Logs(),
		AuditLog: c.auditLog, Kubeconfig: c.kubeconfig,
		Stages: filepath.Join(programs, "manifests", "stages"),
		CRDs:   []string{filepath.Join(programs, "manifests", "crds")},
	})
	c.must(err)
	t.Cleanup(c.plane.Stop)
	c.config = c.plane.Config()
	c.dynamic, err = dynamic.NewForConfig(c.config)
	c.must(err)
	return c
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// script runs a script of hack/ as an administrator, and returns its output.
func (c *cluster) script(name string, args ...string) (string, error) {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), filepath.Join("../../hack", name), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig,
		"PATH="+c.kubernetes+":"+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	return string(output), err
}
