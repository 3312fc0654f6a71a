//go:build e2e

package storage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/e2e/cluster"
)

const (
	// processes is the number of tests of a driver that run in parallel. They mostly wait for pods.
	processes = 4
	// suiteTimeout bounds the tests of one driver.
	suiteTimeout = 2 * time.Hour
)

// suite is a set of the tests, which runs with a manifest of a driver.
type suite struct {
	// manifest is the name of the manifest without .yaml. For skipped.yaml it is the driver.
	manifest string
	// focus is a regular expression that matches the names of the tests.
	focus string
	// reasons are those for tests that do not run.
	reasons skipped
}

const (
	// all matches all tests of the suite, the others some of them.
	all       = "External Storage"
	topology  = all + `.*\] topology `
	expansion = all + `.*\(default fs\)(\(allowExpansion\)\] volume-expand` +
		`| \(late-binding\)\] ephemeral should support expansion)`
)

func TestDriversPassKubernetesStorageTests(t *testing.T) {
	reasons := readSkipped(t)
	run(t, cluster.Options{Nodes: 2}, suite{"cinder", all, reasons},
		suite{"manila", all, reasons}, suite{"cinder-xfs", expansion, skipped{}})
}

// TestCinderPassesTopologyTests uses two zones. Not all tests can: Cinder restores a snapshot in
// its zone, but tests of snapshots start pods in any zone.
func TestCinderPassesTopologyTests(t *testing.T) {
	run(t, cluster.Options{Nodes: 2, Zones: []string{"az1", "az2"}},
		suite{"cinder", topology, skipped{}})
}

func run(t *testing.T, options cluster.Options, suites ...suite) {
	t.Helper()
	options.Name, options.Progress = "storage", os.Stderr
	options.Drivers = []string{"cinder", "manila"}
	c, err := cluster.Start(t.Context(), options)
	assert.NilError(t, err)
	t.Cleanup(c.Stop)
	prepare(t, c)
	for _, s := range suites {
		t.Run(s.manifest, func(t *testing.T) {
			s.reasons.check(t, s.manifest, s.run(t, c))
		})
	}
	c.MustHaveSentListedRequests(t)
}

// prepare creates what the tests need in the cluster.
func prepare(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	kubectl := exec.CommandContext(t.Context(), filepath.Join(c.Binaries, "kubectl"),
		"--kubeconfig="+c.Dir.AdminKubeconfig(), "apply", "--filename=cluster.yaml")
	if out, err := kubectl.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", kubectl.Args, err, out)
	}
}

func (s suite) run(t *testing.T, c *cluster.Cluster) []spec {
	t.Helper()
	programs := os.Getenv("E2E_BIN_DIR")
	manifest, err := filepath.Abs(s.manifest + ".yaml")
	assert.NilError(t, err)
	folder := filepath.Join(c.Dir.Logs(), "storage-tests", s.manifest)
	args := []string{
		"run", "--no-color", fmt.Sprintf("--procs=%d", processes),
		"--timeout=" + suiteTimeout.String(), "--focus=" + s.focus,
		"--output-dir=" + folder, "--json-report=report.json",
	}
	for _, pattern := range s.reasons.patterns(s.manifest) {
		args = append(args, "--skip="+pattern)
	}
	args = append(args, filepath.Join(programs, "storage.test"), "--",
		"--storage.testdriver="+manifest, "--kubeconfig="+c.Dir.AdminKubeconfig(),
		"--kubectl-path="+filepath.Join(c.Binaries, "kubectl"), "--provider=local")
	// All processes of the tests end when this process ends, also by a signal. The kernel kills
	// unshare when the thread ends that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{
		"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--",
		filepath.Join(programs, "ginkgo"),
	}, args...)...)
	// Otherwise ginkgo compares its version with that in the go.mod of the operators.
	cmd.Env = append(os.Environ(), "GO111MODULE=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	ended := cmd.Run()
	assert.Check(t, ended, "the tests of %s", s.manifest)
	return readReport(t, filepath.Join(folder, "report.json"), regexp.MustCompile(s.focus))
}
