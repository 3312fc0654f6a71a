package docs_test

import (
	"cmp"
	"go/build"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

const root = "../.."

// The table names tests of test/integration without their folder.
func TestEachPromiseHasATestOfMakeTest(t *testing.T) {
	t.Parallel()
	compiled, withTag := tests(t), tests(t, "integration")
	for _, folder := range []string{"test/csiaddons", "test/integration"} { // that `make test` runs
		compiled[folder] = withTag[folder]
	}
	for _, row := range table(t, "docs/testing.md", "## Promises and their tests") {
		mustProve(t, row[0], row[1], "test/integration", compiled)
	}
}

// The table names tests of test/csiaddons without their folder.
func TestEachMixOfSystemsHasATestOfMakeTestAll(t *testing.T) {
	t.Parallel()
	all := tests(t, "integration", "long")
	heading := "## CSI-Addons with parts of the CSI-Addons for Ceph"
	for _, row := range table(t, "docs/testing.md", heading) {
		mustProve(t, row[1], row[2], "test/csiaddons", all)
	}
}

// Keys and labels that the driver compiles in are the same whatever the name of its CSIDriver is.
func TestKeysOfManilaAreThoseInTheSourceOfItsDriver(t *testing.T) {
	t.Parallel()
	known, err := os.ReadFile(filepath.Join(root, "pkg/kubectl/meaning/testdata/universe/keys.txt"))
	assert.NilError(t, err)
	spelled := regexp.MustCompile(`[^/\w.-]((?:[\w-]+\.)*manila\.csi\.openstack\.org/[a-z-]+)`)
	found := 0
	for _, suffix := range []string{".md", ".go", ".yaml"} {
		for _, file := range files(t, os.DirFS(root), suffix) {
			text, err := os.ReadFile(filepath.Join(root, file))
			assert.NilError(t, err)
			for _, m := range spelled.FindAllStringSubmatch(string(text), -1) {
				found++
				assert.Check(t, strings.Contains(string(known), "\n"+m[1]+"\t"), "%s: %s", file, m[1])
			}
		}
	}
	assert.Check(t, found >= 5, "found only %d keys", found)
}

// mustProve checks that a cell names tests, and that the tests of a build contain them. Names
// without a folder are those of a default folder.
func mustProve(t *testing.T, promise, cell, folder string, compiled map[string][]string) {
	t.Helper()
	name := regexp.MustCompile("`(?:([^`.]+)\\.)?(Test\\w+)`")
	named := name.FindAllStringSubmatch(cell, -1)
	assert.Check(t, len(named) != 0, "no test proves: %s", promise)
	for _, n := range named {
		if in := cmp.Or(n[1], folder); !slices.Contains(compiled[in], n[2]) {
			t.Errorf("no such test runs: %s in %s, which proves: %s", n[2], in, promise)
		}
	}
}

func TestOpenStackTestsExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	assert.NilError(t, err)
	definition := regexp.MustCompile(`OPENSTACK_TESTS := ((?:.*\\\n)*.*)`)
	list := definition.FindStringSubmatch(string(makefile))
	assert.Assert(t, list != nil, "the Makefile does not set OPENSTACK_TESTS")
	all := tests(t, "integration", "long")["test/integration"]
	for name := range strings.FieldsSeq(strings.ReplaceAll(list[1], "\\\n", " ")) {
		assert.Check(t, slices.Contains(all, "Test"+name), "no test is named Test%s", name)
	}
}

// tests returns the names of the tests that a build with these tags contains, by folder.
func tests(t *testing.T, tags ...string) map[string][]string {
	t.Helper()
	context := build.Default
	context.BuildTags = tags
	test := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t `)
	found := map[string][]string{}
	for _, file := range files(t, os.DirFS(root), "_test.go") {
		folder := path.Dir(file)
		matches, err := context.MatchFile(filepath.Join(root, folder), path.Base(file))
		assert.NilError(t, err)
		if !matches {
			continue
		}
		for _, match := range test.FindAllStringSubmatch(read(t, file), -1) {
			found[folder] = append(found[folder], match[1])
		}
	}
	return found
}

// table returns the cells of each row of the table below a heading.
func table(t *testing.T, page, heading string) [][]string {
	t.Helper()
	_, section, _ := strings.Cut(read(t, page), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n#")
	var rows [][]string
	for line := range strings.Lines(section) {
		if row, ok := strings.CutPrefix(line, "|"); ok {
			rows = append(rows, strings.Split(row, "|"))
		}
	}
	assert.Assert(t, len(rows) >= 3, "%s has no table below %q", page, heading)
	return rows[2:]
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	assert.NilError(t, err)
	return string(text)
}
