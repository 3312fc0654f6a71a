package paths

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			if err := WriteFile(path, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := dir.Clear(); err != nil {
		t.Fatal(err)
	}
	var left []string
	err := fs.WalkDir(os.DirFS(string(dir)), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, ".") && path != "." && dir.in(path) != dir.marker() {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"guests/guest-1/my.kubeconfig", "my.kubeconfig"}, left); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// owned returns the folder of a devcluster.
func owned(t *testing.T) Dir {
	t.Helper()
	dir := Dir(t.TempDir())
	for range 2 {
		if err := dir.Own(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// foreign returns a folder with a folder openstack that belongs to another program.
func foreign(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := WriteFile(filepath.Join(folder, "openstack", "clouds.yaml"), nil); err != nil {
		t.Fatal(err)
	}
	return folder
}

func link(t *testing.T, target, path string) string {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{".", "openstack", "openstack/clouds.yaml"}, got); diff != "" {
		t.Errorf("foreign folder (-want +got):\n%s", diff)
	}
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
	if err := dir.Clear(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(openstack); !os.IsNotExist(err) {
		t.Errorf("the link is left: %v", err)
	}
	if err := os.Mkdir(dir.in("guests"), 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, folder, string(dir.Guest("guest-1")))
	if err := dir.Clear(); err == nil {
		t.Error("a guest cluster outside of the folder is not refused")
	}
	mustBeUntouched(t, folder)
}
