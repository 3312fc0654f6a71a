package paths

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClearKeepsFilesOfOthers(t *testing.T) {
	t.Parallel()
	dir := Dir(t.TempDir())
	for _, d := range []Dir{dir, dir.Guest("guest-1")} {
		for _, path := range []string{
			d.AdminKubeconfig(), d.AuditLog(), d.Logs(), d.Definitions(), d.Control(),
			d.OpenStackClouds("a-operator"), d.OpenStackCA("a-operator"),
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
		if strings.Contains(path, ".") && path != "." {
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
