package architecture_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

const module = "github.com/openstack-csi/csi-operator/"

// pkg is a package in the output of `go list`.
type pkg struct {
	ImportPath                               string
	Imports, TestImports, XTestImports, Deps []string

	folder string // relative to the root of the module
}

// packages returns the packages of the module. It reads their folders, so that the go tool knows
// that this test depends on them and does not use an old result from its cache. It does not see the
// reads of other processes.
func packages(t *testing.T) (all []pkg) {
	t.Helper()
	for _, top := range []string{"assets", "cmd", "docs", "hack", "legacy", "pkg", "test"} {
		err := fs.WalkDir(os.DirFS("../.."), top,
			func(_ string, _ fs.DirEntry, err error) error { return err })
		assert.NilError(t, err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-tags=integration",
		"-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir, cmd.Stderr = "../..", t.Output()
	out, err := cmd.Output()
	assert.NilError(t, err)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		}
		assert.NilError(t, err)
		p.folder = strings.TrimPrefix(p.ImportPath, module)
		all = append(all, p)
	}
}

// match returns the part of a folder that a pattern matches: a/b of a/b/c for a/*.
func match(pattern, folder string) string {
	parts, n := strings.Split(folder, "/"), strings.Count(pattern, "/")+1
	if len(parts) < n {
		return ""
	}
	head := strings.Join(parts[:n], "/")
	if ok, err := path.Match(pattern, head); err != nil || !ok {
		return ""
	}
	return head
}

func TestPackagesFollowTheRules(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		assert.Check(t, !slices.Contains(meaningless(), path.Base(p.folder)),
			"%s: the name does not say what the package contains", p.folder)
		checkLevel(t, p)
		checkLinks(t, p)
	}
}

func levelOf(folder string) (part string, number int) {
	for _, l := range levels() {
		if part = match(l.folder, folder); part != "" {
			return part, l.number
		}
	}
	return "", 0
}

func checkLevel(t *testing.T, p pkg) {
	t.Helper()
	own, number := levelOf(p.folder)
	assert.Check(t, own != "", "%s: has no level", p.folder)
	for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
		to, inside := strings.CutPrefix(imported, module)
		if !inside {
			continue
		}
		other, otherNumber := levelOf(to)
		switch {
		case other == own:
		case number == apart && otherNumber == apart:
			t.Errorf("%s: must not import %s, not even in tests", p.folder, to)
		case otherNumber >= number && slices.Contains(p.Imports, imported):
			t.Errorf("%s: on level %d, imports %s, on level %d", p.folder, number, to, otherNumber)
		}
	}
}

func checkLinks(t *testing.T, p pkg) {
	t.Helper()
	for _, program := range programs() {
		if match(program.folder, p.folder) == "" {
			continue
		}
		for _, not := range program.not {
			not = strings.Replace(not, "./", module, 1)
			for _, dep := range p.Deps {
				assert.Check(t, dep != not && !strings.HasPrefix(dep, not+"/"),
					"%s: must not link %s", p.folder, dep)
			}
		}
	}
}

// A label of the diagram contains a level and its folders; those of pkg are without it.
func TestEveryLevelHasPackagesAndIsInTheDiagram(t *testing.T) {
	t.Parallel()
	all := packages(t)
	page, err := os.ReadFile("../../docs/architecture.md")
	assert.NilError(t, err)
	label := regexp.MustCompile(`\["(\d): ([^"]*)"\]`)
	drawn := map[string]bool{}
	for _, match := range label.FindAllStringSubmatch(string(page), -1) {
		for _, folder := range strings.Split(match[2], ",") {
			drawn[match[1]+" "+strings.TrimSpace(folder)] = true
		}
	}
	for _, level := range levels() {
		used := slices.ContainsFunc(all, func(p pkg) bool { return match(level.folder, p.folder) != "" })
		assert.Check(t, used, "no package is in %s", level.folder)
		want := fmt.Sprint(level.number, " ", strings.TrimPrefix(level.folder, "pkg/"))
		assert.Check(t, drawn[want],
			"the diagram of docs/architecture.md does not contain level and folder %s", want)
		delete(drawn, want)
	}
	assert.Check(t, len(drawn) == 0,
		"the diagram of docs/architecture.md contains other folders: %v", drawn)
}
