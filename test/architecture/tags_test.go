package architecture_test

import (
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// TestTagsChooseTheTests checks that a command of the Makefile uses each tag, that `make vet`
// compiles all tests, and that a file has the tag long if and only if its name ends with
// _long_test.go.
func TestTagsChooseTheTests(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../Makefile")
	assert.NilError(t, err)
	makefile := strings.ReplaceAll(string(content), "\\\n", "")
	all := regexp.MustCompile(`(?m)^ALL_TAGS := (.+)`).FindStringSubmatch(makefile)
	assert.Assert(t, all != nil, "the Makefile does not set ALL_TAGS")
	known := strings.Split(all[1], ",")
	for _, tag := range known {
		used := regexp.MustCompile(`(-tags |TAGS \?= |TAGS = )(\S+,)?` + tag + `\b`)
		assert.Check(t, used.MatchString(makefile),
			"no command of the Makefile runs tests with the tag %s", tag)
	}
	short := slices.DeleteFunc(slices.Clone(known), func(tag string) bool { return tag == "long" })
	for _, file := range testFiles(t, "../..") {
		named := strings.HasSuffix(file, "_long_test.go")
		assert.Check(t, compiles(t, file, short) != named, "%s: a file needs the tag long if and only "+
			"if its name ends in _long_test.go, and other tags must be in ALL_TAGS of the Makefile", file)
		assert.Check(t, !named || compiles(t, file, known), "%s: a tag is not in ALL_TAGS", file)
	}
}

// compiles returns whether a build with tags contains a file.
func compiles(t *testing.T, file string, tags []string) bool {
	t.Helper()
	context := build.Default
	context.BuildTags = tags
	matches, err := context.MatchFile(filepath.Split(file))
	assert.NilError(t, err)
	return matches
}

// testFiles returns the paths of all tests of the module below a folder.
func testFiles(t *testing.T, root string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == root {
			return err
		}
		_, noModule := os.Stat(filepath.Join(file, "go.mod"))
		if d.IsDir() && (noModule == nil || d.Name()[0] == '.' || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if strings.HasSuffix(file, "_test.go") {
			files = append(files, file)
		}
		return nil
	})
	assert.Assert(t, err == nil && len(files) != 0, "found %d tests: %v", len(files), err)
	return files
}
