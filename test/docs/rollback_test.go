package docs_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// rollbackCommand returns the command of docs/upgrades.md that contains a text.
func rollbackCommand(t *testing.T, text string) string {
	t.Helper()
	for _, block := range regexp.MustCompile(`(?:(?: {4}[^\n]*)\n)+`).FindAllString(
		read(t, "docs/upgrades.md"), -1) {
		if strings.Contains(block, text) {
			return block
		}
	}
	t.Fatalf("docs/upgrades.md contains no command with %s", text)
	return ""
}

// runCommand runs a command in a folder whose programs it finds first, and returns its output.
func runCommand(t *testing.T, folder, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", command)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	assert.Assert(t, err == nil, "%v: %s", err, output)
	return string(output)
}

func writeProgram(t *testing.T, folder, name, script string) {
	t.Helper()
	err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script), 0o700)
	assert.NilError(t, err)
}

func volumeOf(name, driver string, attributes map[string]string) corev1.PersistentVolume {
	return corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				Name: name, UID: "2", ResourceVersion: "3",
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeAttributes: attributes},
			},
		},
	}
}

// The test evaluates the template of the command as kubectl does.
func TestRollbackFindsPersistentVolumesWithoutTheirAccessRule(t *testing.T) {
	t.Parallel()
	const driver = "manila.csi.openstack.org"
	attributes := func(share, key, rule string) map[string]string {
		return map[string]string{"shareID": share, key: rule}
	}
	list, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.PersistentVolumeList{
		Items: []corev1.PersistentVolume{
			volumeOf("never-fenced", driver, attributes("share-1", "shareAccessID", "rule-1")),
			volumeOf("fenced", driver, attributes("share-1", "shareAccessID", "rule-0")),
			volumeOf("new", driver, attributes("share-1", "shareAccessIDs", "rule-1")),
			volumeOf("deleted", driver, attributes("share-2", "shareAccessID", "rule-1")),
			volumeOf("named", driver,
				map[string]string{"shareName": "share-3", "shareAccessID": "rule-3"}),
			volumeOf("cinder", "cinder.csi.openstack.org", nil),
		},
	})
	assert.NilError(t, err)
	command := rollbackCommand(t, "jsonpath=")
	template := regexp.MustCompile(`jsonpath='([^']*)'`).FindStringSubmatch(command)[1]
	path := jsonpath.New("command").AllowMissingKeys(true)
	var rows bytes.Buffer
	assert.NilError(t, path.Parse(template))
	assert.NilError(t, path.Execute(&rows, list))
	folder := t.TempDir()
	writeProgram(t, folder, "kubectl", "cat <<'END'\n"+rows.String()+"END\n")
	writeProgram(t, folder, "openstack", `case "$*" in
		"share access list share-1 -f value") echo "rule-1 ip 0.0.0.0/0 rw active";;
		"share access list share-3 -f value") echo "rule-3 ip 0.0.0.0/0 rw active";;
		*) exit 1;;
		esac`)
	want := "fenced share-1\nnew share-1\ndeleted share-2\n"
	assert.Check(t, is.DeepEqual(want, runCommand(t, folder, command)), "output")
}

func TestRollbackCopiesPersistentVolumesWithACurrentAccessRule(t *testing.T) {
	t.Parallel()
	command := strings.ReplaceAll(rollbackCommand(t, "name=NAME"), "name=NAME rule=RULE",
		"name=data rule=rule-1")
	for _, key := range []string{"shareAccessID", "shareAccessIDs"} {
		volume := volumeOf("data", "manila.csi.openstack.org",
			map[string]string{"shareID": "share-1", key: "rule-0,rule-2"})
		text, err := yaml.Marshal(volume)
		assert.NilError(t, err)
		folder := t.TempDir()
		writeProgram(t, folder, "kubectl", "cat <<'END'\n"+string(text)+"END\n")
		runCommand(t, folder, command)
		text, err = os.ReadFile(filepath.Join(folder, "data.yaml"))
		assert.NilError(t, err)
		var got corev1.PersistentVolume
		assert.NilError(t, yaml.UnmarshalStrict(text, &got))
		want := volume
		want.ResourceVersion, want.Spec.ClaimRef.ResourceVersion = "", ""
		want.Spec.CSI.VolumeAttributes = map[string]string{
			"shareID": "share-1", "shareAccessID": "rule-1",
		}
		assert.Check(t, is.DeepEqual(want, got), "copy")
	}
}
