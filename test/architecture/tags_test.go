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
)

// TestTagsChooseTheTests checks that `make vet` knows all tags, that a command of the Makefile uses
// each of them, and that exactly the files with the tag long are named *_long_test.go.
func TestTagsChooseTheTests(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	makefile := strings.ReplaceAll(string(content), "\\\n", "")
	all := regexp.MustCompile(`(?m)^ALL_TAGS := (.+)`).FindStringSubmatch(makefile)
	if all == nil {
		t.Fatal("the Makefile does not set ALL_TAGS")
	}
	known := strings.Split(all[1], ",")
	for _, tag := range known {
		used := regexp.MustCompile(`(-tags |TAGS \?= |TAGS = )(\S+,)?` + tag + `\b`)
		if !used.MatchString(makefile) {
			t.Errorf("no command of the Makefile runs tests with the tag %s", tag)
		}
	}
	for _, file := range testFiles(t, "../..") {
		expression := constraintOf(t, filepath.Join("../..", file))
		for _, tag := range regexp.MustCompile(`\w+`).FindAllString(expression.String(), -1) {
			if tag != "linux" && !slices.Contains(known, tag) {
				t.Errorf("%s: tag %s is not in ALL_TAGS of the Makefile", file, tag)
			}
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
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d tests: %v", len(files), err)
	}
	return files
}

// constraintOf returns the build constraint of a file. Without one every build compiles it.
func constraintOf(t *testing.T, file string) constraint.Expr {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return expression
}
