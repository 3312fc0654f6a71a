//go:build integration

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
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/e2e/report"
	"github.com/openstack-csi/csi-operator/test/openstack/accessrules"
)

func TestDriversPassCSISanity(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	t.Cleanup(func() { s.mustHaveSentListedRequests(t) }) // after the parallel tests
	for _, d := range drivers() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			var sockets []string
			for _, c := range d.containers {
				sockets = append(sockets, s.startDriver(t, c))
			}
			sockets = sockets[len(sockets)-2:]
			known := slices.Sorted(maps.Keys(d.failures))
			passed, failed := s.runSanity(t, d, sockets, "--ginkgo.skip="+anyOf(known))
			assert.Check(t, len(failed) == 0 && passed >= minimumPassed,
				"csi-sanity: %d tests passed, these failed: %q", passed, failed)
			_, failed = s.runSanity(t, d, sockets, "--ginkgo.focus="+anyOf(known))
			assert.Check(t, is.DeepEqual(known, failed), "known failures")
			t.Logf("csi-sanity: %d passed, %d failed as expected", passed, len(failed))
		})
	}
}

// mustHaveSentListedRequests checks that docs/openstack-requests.md contains each request that
// OpenStack has received.
func (s *site) mustHaveSentListedRequests(t *testing.T) {
	t.Helper()
	page, err := accessrules.Read("../../../docs/openstack-requests.md")
	assert.NilError(t, err)
	unlisted, unused := page.Compare(s.cloud.Counters().Calls)
	for _, call := range unlisted {
		t.Errorf("docs/openstack-requests.md has no row for %s", call)
	}
	t.Logf("rows of docs/openstack-requests.md without a request: %v", unused)
}

// anyOf returns a regular expression that matches the names of tests.
func anyOf(names []string) string {
	var quoted []string
	for _, name := range names {
		quoted = append(quoted, regexp.QuoteMeta(name)+"$")
	}
	return strings.Join(quoted, "|")
}

// startDriver starts a container with a driver. It returns the path of its socket in the node.
func (s *site) startDriver(t *testing.T, c container) string {
	t.Helper()
	pod := s.pod(t, c.namespace, c.workload)
	// An init container that restarts runs beside the others.
	all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	i := slices.IndexFunc(all, func(found corev1.Container) bool {
		return found.Name == c.name
	})
	if i < 0 {
		t.Fatalf("pod %s has no container %s", pod.Name, c.name)
	}
	return s.runContainer(t, pod, all[i],
		filepath.Join(os.Getenv("E2E_BIN_DIR"), c.program))
}

// runSanity runs csi-sanity with the sockets of the controller service and of the node service. It
// returns the number of tests that passed, and the names of those that failed.
func (s *site) runSanity(
	t *testing.T, d driver, sockets []string, selection string,
) (passed int, failed []string) {
	t.Helper()
	// The NFS driver mounts only below this folder.
	pods := filepath.Join(kubeletFolder, "pods")
	folder := filepath.Join(pods, "csi-sanity-"+string(uuid.NewUUID()))
	files := filepath.Join(s.node, folder)
	assert.NilError(t, os.MkdirAll(files, 0o755))
	parameters, secrets := s.classes(t, d)
	writeYAML(t, filepath.Join(files, "parameters.yaml"), parameters)
	writeYAML(t, filepath.Join(files, "secrets.yaml"), secrets)
	root := s.newRoot(t, filepath.Base(files))
	mount(t, filepath.Join(s.node, kubeletFolder), filepath.Join(root, kubeletFolder),
		unix.MS_BIND|unix.MS_REC, "")
	bindFile(t, filepath.Join(os.Getenv("E2E_BIN_DIR"), "csi-sanity"),
		filepath.Join(root, "csi-sanity"))
	const gib = 1 << 30
	cmd := exec.CommandContext(t.Context(), "/csi-sanity", selection,
		"--csi.controllerendpoint=unix://"+sockets[0], "--csi.endpoint=unix://"+sockets[1],
		"--csi.mountdir="+folder+"/target", "--csi.stagingdir="+folder+"/staging",
		fmt.Sprintf("--csi.testvolumesize=%d", gib), fmt.Sprintf("--csi.testvolumeexpandsize=%d", 2*gib),
		"--csi.testvolumeparameters="+folder+"/parameters.yaml",
		"--csi.secrets="+folder+"/secrets.yaml",
		"--ginkgo.json-report="+folder+"/report.json", "--ginkgo.no-color")
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Chroot: root}, "/"
	out, ended := cmd.CombinedOutput()
	passed, failed = readReport(t, filepath.Join(files, "report.json"))
	t.Logf("csi-sanity %s: %v\n%s", selection, ended, out)
	return passed, failed
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
func (s *site) classes(t *testing.T, d driver) (
	parameters map[string]string, secrets map[string]map[string]string,
) {
	t.Helper()
	class, err := s.client.StorageV1().StorageClasses().Get(t.Context(), d.class, metav1.GetOptions{})
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

func (s *site) secret(t *testing.T, namespace, name string) map[string]string {
	t.Helper()
	found, err := s.client.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	assert.NilError(t, err)
	values := map[string]string{}
	for key, value := range found.Data {
		values[key] = string(value)
	}
	return values
}
