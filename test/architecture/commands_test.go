package architecture_test

import (
	"go/build/constraint"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// command is a command `go test` of the Makefile, for packages such as ./test/... with build tags.
type command struct {
	packages, tags []string
	selects        bool // runs only some tests
}

// TestEveryTestBelongsToACommand checks that `make test`, `make test-all`, `make test-root` or a
// benchmark runs each test, that `make vet` knows all tags, and that exactly the files with the tag
// long are named *_long_test.go.
func TestEveryTestBelongsToACommand(t *testing.T) {
	t.Parallel()
	makefile := readMakefile(t)
	commands := testCommands(t, makefile)
	known := append(strings.Split(variable(t, makefile, "ALL_TAGS"), ","), "linux")
	for _, file := range testFiles(t, "../..") {
		expression := constraintOf(t, filepath.Join("../..", file))
		if !slices.ContainsFunc(commands, func(c command) bool { return c.compiles(file, expression) }) {
			t.Errorf("no command of the Makefile compiles %s, which needs %s", file, expression)
		}
		for _, tag := range regexp.MustCompile(`\w+`).FindAllString(expression.String(), -1) {
			if !slices.Contains(known, tag) {
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

// TestMakeRunChecksItsFlagsBeforeTheLongBuilds reads what `make run` would execute.
func TestMakeRunChecksItsFlagsBeforeTheLongBuilds(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "make", "-n", "-j4", "run", "ARGS=--nodes=real")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "MAKEFLAGS=") // `make test-unit` sets it
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rest := string(out)
	for _, want := range []string{
		"go build", "bin/devcluster run --nodes=real --check", "hack/k8s.sh", "hack/node.sh",
		"exec bin/devcluster run",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is missing, or not in this place:\n%s", want, out)
		}
		rest = after
	}
}

// compiles reports whether the command compiles a file with a constraint. A command that selects
// tests counts only for the tags that no other command has.
func (c command) compiles(file string, expression constraint.Expr) bool {
	if c.selects && expression.Eval(func(tag string) bool {
		return slices.Contains([]string{"linux", "integration", "long"}, tag)
	}) {
		return false
	}
	return slices.ContainsFunc(c.packages, func(pattern string) bool {
		parent, tree := strings.CutSuffix(strings.TrimPrefix(pattern, "./"), "...")
		return tree && strings.HasPrefix(file, parent) || filepath.Dir(file) == parent
	}) && expression.Eval(func(tag string) bool {
		return tag == "linux" || slices.Contains(c.tags, tag)
	})
}

// readMakefile returns the Makefile without line continuations.
func readMakefile(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(content), "\\\n", "")
}

// variable returns the value of a variable, such as TAGS or `test-all: export TAGS`.
func variable(t *testing.T, makefile, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` [:?]= (.+)`).FindStringSubmatch(makefile)
	if found == nil {
		t.Fatalf("the Makefile does not set %s", name)
	}
	return found[1]
}

// testCommands returns the commands of all stages and their parts, and of the targets that are no
// stage.
func testCommands(t *testing.T, makefile string) []command {
	t.Helper()
	recipes := map[string]string{}
	for _, rule := range regexp.MustCompile(`(?m)^([a-z0-9-]+):.*\n((?:\t.*\n)+)`).
		FindAllStringSubmatch(makefile, -1) {
		recipes[rule[1]] = rule[2]
	}
	tags := map[string]string{
		"test": variable(t, makefile, "TAGS"), "test-root": "",
		"test-all": variable(t, makefile, "test-all: export TAGS"),
	}
	var commands []command
	for suite, value := range tags {
		for _, stage := range strings.Fields(recipes[suite]) {
			commands = append(commands, goTests(recipes[stage], value)...)
			for _, part := range strings.Fields(recipes[stage]) {
				if strings.HasPrefix(part, "test-") {
					commands = append(commands, goTests(recipes[part], value)...)
				}
			}
		}
	}
	for _, target := range []string{"bench", "bench-csi-addons"} {
		commands = append(commands, goTests(recipes[target], "")...)
	}
	return commands
}

// goTests returns the commands in a recipe if the variable TAGS has a value.
func goTests(recipe, tags string) []command {
	recipe = strings.NewReplacer("$(TAGS)", tags, "$(PACKAGES)", "./...").Replace(recipe)
	var commands []command
	for line := range strings.Lines(recipe) {
		_, arguments, found := strings.Cut(line, "go test ")
		if !found {
			continue
		}
		one := command{selects: strings.Contains(arguments, "-run ")}
		fields := strings.Fields(arguments)
		for i, field := range fields {
			if field == "-tags" {
				one.tags = strings.Split(fields[i+1], ",")
			}
			if strings.HasPrefix(field, "./") {
				one.packages = append(one.packages, field)
			}
		}
		commands = append(commands, one)
	}
	return commands
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
