//go:build e2e

package sanity

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/e2e/cluster"
	"github.com/openstack-csi/csi-operator/test/e2e/report"
)

func TestDriversPassCSISanity(t *testing.T) {
	t.Parallel()
	c, err := cluster.Start(t.Context(), cluster.Options{
		Name: "csi-sanity", Drivers: []string{"cinder", "manila"}, Settle: time.Minute,
		Progress: os.Stderr,
	})
	assert.NilError(t, err)
	t.Cleanup(c.Stop)
	t.Cleanup(func() { c.MustHaveSentListedRequests(t) }) // after the parallel tests
	for _, d := range drivers() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c, d)
			known := slices.Sorted(maps.Keys(d.failures))
			passed, failed := s.runSanity(t, "--ginkgo.skip="+anyOf(known))
			assert.Check(t, len(failed) == 0 && passed >= minimumPassed,
				"csi-sanity: %d tests passed, these failed: %q", passed, failed)
			_, failed = s.runSanity(t, "--ginkgo.focus="+anyOf(known))
			assert.Check(t, is.DeepEqual(known, failed), "known failures")
			t.Logf("csi-sanity: %d passed, %d failed as expected", passed, len(failed))
		})
	}
}

// anyOf returns a regular expression that matches the names of tests.
func anyOf(names []string) string {
	var quoted []string
	for _, name := range names {
		quoted = append(quoted, regexp.QuoteMeta(name)+"$")
	}
	return strings.Join(quoted, "|")
}

// site is where csi-sanity tests a driver.
type site struct {
	driver

	cluster *cluster.Cluster
	// node is the folder of the node on this machine. pod is the folder of the controller's pod in the
	// node: the NFS driver mounts only below such folders, and the kubelet deletes unknown ones.
	node, pod string
}

// newSite returns the site of a driver, and gives the node csi-sanity and a short name for the
// socket of the controller service: the path of a socket has at most 107 bytes.
func newSite(t *testing.T, c *cluster.Cluster, d driver) site {
	t.Helper()
	pods, err := c.Client.CoreV1().Pods(d.namespace).List(t.Context(), metav1.ListOptions{})
	assert.NilError(t, err)
	s := site{driver: d, cluster: c, node: c.Dir.Node(c.Nodes()[0].Name())}
	for _, pod := range pods.Items {
		if strings.HasPrefix(pod.Name, d.controller+"-") {
			s.pod = "/var/lib/kubelet/pods/" + string(pod.UID)
		}
	}
	assert.Assert(t, s.pod != "", "Deployment %s has no pod", d.controller)
	program, err := os.ReadFile(filepath.Join(os.Getenv("E2E_BIN_DIR"), "csi-sanity"))
	assert.NilError(t, err)
	assert.NilError(t, os.Mkdir(filepath.Join(s.node, s.folder()), 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(s.node, s.folder(), "program"), program, 0o755))
	assert.NilError(t, os.Symlink(s.pod+"/volumes/kubernetes.io~empty-dir/socket-dir",
		filepath.Join(s.node, "tmp", s.name)))
	return s
}

func (s site) folder() string { return s.pod + "/csi-sanity" }

// runSanity runs csi-sanity in the namespaces of the node. It returns the number of tests that
// passed, and the names of those that failed.
func (s site) runSanity(t *testing.T, selection string) (passed int, failed []string) {
	t.Helper()
	files := filepath.Join(s.node, s.folder())
	parameters, secrets := s.classes(t)
	writeYAML(t, filepath.Join(files, "parameters.yaml"), parameters)
	writeYAML(t, filepath.Join(files, "secrets.yaml"), secrets)
	pid, err := os.ReadFile(filepath.Join(s.node, "pid"))
	assert.NilError(t, err)
	const gib = 1 << 30
	out, ended := exec.CommandContext(t.Context(), "nsenter", "--target="+string(pid), "--mount",
		"--pid", "--root", "--wd", s.folder()+"/program", selection,
		"--csi.controllerendpoint=unix:///tmp/"+s.name+"/csi.sock",
		"--csi.endpoint=unix:///var/lib/kubelet/plugins/"+s.name+"/csi.sock",
		"--csi.mountdir="+s.folder()+"/target", "--csi.stagingdir="+s.folder()+"/staging",
		fmt.Sprintf("--csi.testvolumesize=%d", gib), fmt.Sprintf("--csi.testvolumeexpandsize=%d", 2*gib),
		"--csi.testvolumeparameters="+s.folder()+"/parameters.yaml",
		"--csi.secrets="+s.folder()+"/secrets.yaml",
		"--ginkgo.json-report="+s.folder()+"/report.json", "--ginkgo.no-color",
	).CombinedOutput()
	t.Logf("csi-sanity %s: %v\n%s", selection, ended, out)
	return readReport(t, filepath.Join(files, "report.json"))
}

func writeYAML(t *testing.T, file string, content any) {
	t.Helper()
	data, err := yaml.Marshal(content)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	assert.NilError(t, err)
}

// readReport returns the number of tests that passed, and the sorted names of the tests and steps
// that failed.
func readReport(t *testing.T, file string) (passed int, failed []string) {
	t.Helper()
	entries, err := report.Read(file)
	assert.NilError(t, err)
	for _, e := range entries {
		switch e.State {
		case "passed":
			if e.Kind == report.Test {
				passed++
			}
		case "skipped", "pending":
		default:
			failed = append(failed, e.Name)
		}
	}
	slices.Sort(failed)
	return passed, failed
}

// classes returns the parameters of volumes, and the Secrets of calls in the form of csi-sanity.
func (s site) classes(t *testing.T) (
	parameters map[string]string, secrets map[string]map[string]string,
) {
	t.Helper()
	class, err := s.cluster.Client.StorageV1().StorageClasses().
		Get(t.Context(), s.class, metav1.GetOptions{})
	assert.NilError(t, err)
	parameters, secrets = map[string]string{}, map[string]map[string]string{}
	for name, value := range class.Parameters {
		kind, isSidecars := strings.CutPrefix(name, "csi.storage.k8s.io/")
		if !isSidecars {
			parameters[name] = value
			continue
		}
		if kind, isSecret := strings.CutSuffix(kind, "-secret-name"); isSecret {
			namespace := class.Parameters["csi.storage.k8s.io/"+kind+"-secret-namespace"]
			for _, call := range callsWith(kind) {
				secrets[call+"Secret"] = s.secret(t, namespace, value)
			}
		}
	}
	return parameters, secrets
}

// callsWith returns the calls of CSI that get a Secret of a StorageClass.
func callsWith(kind string) []string {
	return map[string][]string{
		"provisioner": {
			"CreateVolume", "DeleteVolume", "ControllerValidateVolumeCapabilities", "CreateSnapshot",
			"DeleteSnapshot", "ListSnapshots",
		},
		"controller-publish": {"ControllerPublishVolume", "ControllerUnpublishVolume"},
		"controller-expand":  {"ControllerExpandVolume"},
		"node-stage":         {"NodeStageVolume"},
		"node-publish":       {"NodePublishVolume"},
	}[kind]
}

func (s site) secret(t *testing.T, namespace, name string) map[string]string {
	t.Helper()
	found, err := s.cluster.Client.CoreV1().Secrets(namespace).
		Get(t.Context(), name, metav1.GetOptions{})
	assert.NilError(t, err)
	values := map[string]string{}
	for key, value := range found.Data {
		values[key] = string(value)
	}
	return values
}
