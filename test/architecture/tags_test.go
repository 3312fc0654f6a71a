package architecture_test

import (
	"go/build/constraint"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// TestTagsChooseTheTests checks that `make vet` knows all tags, that a command of the Makefile uses
// each of them, and that a file has the tag long if and only if its name ends with _long_test.go.
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
	for _, file := range testFiles(t, "../..") {
		expression := constraintOf(t, filepath.Join("../..", file))
		for _, tag := range regexp.MustCompile(`\w+`).FindAllString(expression.String(), -1) {
			assert.Check(t, tag == "linux" || slices.Contains(known, tag),
				"%s: tag %s is not in ALL_TAGS of the Makefile", file, tag)
		}
		needsLong := !expression.Eval(func(tag string) bool { return tag != "long" })
		if named := strings.HasSuffix(file, "_long_test.go"); named != needsLong {
			t.Errorf("%s: a file needs the tag long if and only if its name ends in _long_test.go, "+
				"and it needs %s", file, expression)
		}
	}
}

// testFiles returns the paths of all tests of the module below a folder.
func testFiles(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		_, noModule := os.Stat(filepath.Join(root, path, "go.mod"))
		hidden := path != "." && strings.HasPrefix(d.Name(), ".")
		if d.IsDir() && path != "." && (noModule == nil || hidden || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return nil
	})
	assert.Assert(t, err == nil && len(files) != 0, "found %d tests: %v", len(files), err)
	return files
}

// constraintOf returns the build constraint of a file. Without one every build compiles it.
func constraintOf(t *testing.T, file string) constraint.Expr {
	t.Helper()
	content, err := os.ReadFile(file)
	assert.NilError(t, err)
	line := "//go:build linux"
	for one := range strings.Lines(string(content)) {
		if constraint.IsGoBuild(one) {
			line = one
		}
		if strings.HasPrefix(one, "package ") {
			break
		}
	}
	expression, err := constraint.Parse(strings.TrimSpace(line))
	assert.NilError(t, err, file)
	return expression
}
