package architecture_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/architecture"
)

func TestRepositoryFollowsTheRules(t *testing.T) {
	t.Parallel()
	violations := check(t, "../..")
	assert.Check(t, len(violations) == 0,
		"the packages violate rules of docs/architecture.md:\n%s", strings.Join(violations, "\n"))
}

// A label of the diagram contains a level and its folders; those of pkg are without it.
func TestEveryLevelHasPackagesAndIsInTheDiagram(t *testing.T) {
	t.Parallel()
	tree := load(t, "../..")
	page, err := os.ReadFile("../../docs/architecture.md")
	assert.NilError(t, err)
	label := regexp.MustCompile(`\["(\d): ([^"]*)"\]`)
	drawn := map[string]bool{}
	for _, match := range label.FindAllStringSubmatch(string(page), -1) {
		for _, folder := range strings.Split(match[2], ",") {
			drawn[match[1]+" "+strings.TrimSpace(folder)] = true
		}
	}
	for _, level := range architecture.Repository().Levels {
		assert.Check(t, tree.Contains(level.Folder), "no package is in %s", level.Folder)
		want := fmt.Sprint(level.Number, " ", strings.TrimPrefix(level.Folder, "pkg/"))
		assert.Check(t, drawn[want],
			"the diagram of docs/architecture.md does not contain level and folder %s", want)
		delete(drawn, want)
	}
	assert.Check(t, len(drawn) == 0,
		"the diagram of docs/architecture.md contains other folders: %v", drawn)
}

func check(t *testing.T, dir string) []string {
	t.Helper()
	return architecture.Repository().Check(load(t, dir))
}

func load(t *testing.T, dir string) architecture.Tree {
	t.Helper()
	readFolders(t, dir)
	tree, err := architecture.Load(t.Context(), dir)
	assert.NilError(t, err)
	assert.Assert(t, len(tree.Packages) != 0, "no packages in %s", dir)
	return tree
}

// readFolders reads all folders with packages, so that the go tool knows that this test depends on
// them and does not use an old result from its cache. It does not see the reads of other processes.
func readFolders(t *testing.T, dir string) {
	t.Helper()
	for _, top := range []string{"assets", "cmd", "hack", "legacy", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join(dir, top),
			func(_ string, _ fs.DirEntry, err error) error { return err })
		assert.Assert(t, err == nil || errors.Is(err, fs.ErrNotExist), err)
	}
}
