package paths

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestClearKeepsFilesOfOthers(t *testing.T) {
	t.Parallel()
	dir := owned(t)
	for _, d := range []Dir{dir, dir.Guest("guest-1")} {
		for _, path := range []string{
			d.AdminKubeconfig(), d.AuditLog(), d.Logs(), d.Definitions(), d.Control(),
			d.Mounted("a-operator", "/etc/openstack/clouds.yaml"),
			d.GuestKubeconfig("a-operator"), d.Kubeconfig("a-operator"),
			d.OperatorConfig("a-operator"), d.OperatorEnv("a-operator"), d.OperatorLog("a-operator"),
			d.in("my.kubeconfig"),
		} {
			assert.NilError(t, WriteFile(path, nil))
		}
	}
	assert.NilError(t, dir.Clear())
	var left []string
	err := fs.WalkDir(os.DirFS(string(dir)), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, ".") && path != "." && dir.in(path) != dir.marker() {
			left = append(left, path)
		}
		return err
	})
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual([]string{"guests/guest-1/my.kubeconfig", "my.kubeconfig"}, left),
		"files")
}

func owned(t *testing.T) Dir {
	t.Helper()
	dir := Dir(t.TempDir())
	for range 2 {
		assert.NilError(t, dir.Own())
	}
	return dir
}

// foreign returns a folder with a folder openstack that belongs to another program.
func foreign(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	assert.NilError(t, WriteFile(filepath.Join(folder, "openstack", "clouds.yaml"), nil))
	return folder
}

func link(t *testing.T, target, path string) string {
	t.Helper()
	assert.NilError(t, os.Symlink(target, path))
	return path
}

// mustBeUntouched fails the test unless the folder is as foreign made it.
func mustBeUntouched(t *testing.T, folder string) {
	t.Helper()
	var got []string
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, _ fs.DirEntry, err error) error {
		got = append(got, path)
		return err
	})
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual([]string{".", "openstack", "openstack/clouds.yaml"}, got),
		"foreign folder")
}

func TestFoldersOfOtherProgramsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	folder := foreign(t)
	for name, dir := range map[string]Dir{
		"folder": Dir(folder),
		"link":   Dir(link(t, folder, filepath.Join(t.TempDir(), "link"))),
	} {
		for operation, run := range map[string]func() error{"own": dir.Own, "clear": dir.Clear} {
			want := string(dir) + " is not empty and is not the folder of a devcluster: " +
				"choose an empty folder, or remove this one if an earlier version of the devcluster made it"
			if err := run(); err == nil || err.Error() != want {
				t.Errorf("%s %s: got %v, want %s", operation, name, err, want)
			}
		}
	}
	mustBeUntouched(t, folder)
}

func TestClearDoesNotFollowLinksOutOfTheFolder(t *testing.T) {
	t.Parallel()
	folder, dir := foreign(t), owned(t)
	openstack := link(t, filepath.Join(folder, "openstack"), dir.OpenStackState())
	assert.Check(t, dir.Clear())
	if _, err := os.Lstat(openstack); !os.IsNotExist(err) {
		t.Errorf("the link is left: %v", err)
	}
	assert.NilError(t, os.Mkdir(dir.in("guests"), 0o755))
	link(t, folder, string(dir.Guest("guest-1")))
	if err := dir.Clear(); err == nil {
		t.Error("a guest cluster outside of the folder is not refused")
	}
	mustBeUntouched(t, folder)
}
