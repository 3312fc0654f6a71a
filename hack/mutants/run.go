// Command mutants shows which mistakes the unit tests of packages notice: it changes one place of
// the code at a time, such as a condition, and prints which tests fail. `make mutants` calls it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

type runner struct {
	seed  uint64
	n     int
	tests []string // packages whose tests run; if empty, those of the mutated package
	root  string   // the current folder
	temp  string   // a folder for the mutants
	out   io.Writer
}

// run tries mutants of packages, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	seed := flags.Uint64("seed", 1, "`number` that chooses the mutants")
	n := flags.Int("n", 20, "`number` of mutants in each package")
	tests := flags.String("tests", "", "`packages` whose tests run, by default the mutated one")
	if flags.Parse(args) != nil {
		return 2
	}
	root, errRoot := os.Getwd()
	temp, err := os.MkdirTemp("", "mutants")
	if err = errors.Join(errRoot, err); err == nil {
		defer os.RemoveAll(temp)
		err = runner{*seed, *n, strings.Fields(*tests), root, temp, stdout}.packages(ctx, flags.Args())
	}
	if err != nil {
		fmt.Fprintln(stderr, "mutants:", err)
		return 1
	}
	return 0
}

// packages tries mutants of the packages that match patterns. Without -tests, it leaves out
// packages that have no tests.
func (r runner) packages(ctx context.Context, patterns []string) error {
	format := `{{.ImportPath}}{{range .GoFiles}} {{$.Dir}}/{{.}}{{end}}`
	if len(r.tests) == 0 {
		format = "{{if or .TestGoFiles .XTestGoFiles}}" + format + "{{end}}"
	}
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-f", format}, patterns...)...)
	list.Stderr = r.out
	packages, err := list.Output()
	if err != nil {
		return fmt.Errorf("listing packages: %w", err)
	}
	for line := range strings.Lines(string(packages)) {
		fields := strings.Fields(line)
		if err := r.tryPackage(ctx, fields[0], fields[1:]); err != nil {
			return fmt.Errorf("%s: %w", fields[0], err)
		}
	}
	return nil
}

// tryPackage prints which mutants of a package its tests notice.
func (r runner) tryPackage(ctx context.Context, path string, files []string) error {
	var mutants []mutant
	for _, file := range files {
		found, err := r.find(file)
		if err != nil {
			return err
		}
		mutants = append(mutants, found...)
	}
	if result, err := r.test(ctx, path, mutant{file: files[0]}); result != survived {
		return fmt.Errorf("the tests must succeed without mutants: %s, %w", result, err)
	}
	random := rand.New(rand.NewPCG(r.seed, 0)) //nolint:gosec // a seed repeats its mutants
	random.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	tried, noticed := 0, 0
	for _, m := range mutants {
		result, err := r.test(ctx, path, m)
		if err != nil {
			return err
		}
		if result == "" {
			continue
		}
		tried++
		if result != survived {
			noticed++
		}
		fmt.Fprintf(r.out, "%s: %s\n", m.name, result)
		if tried == r.n {
			break
		}
	}
	fmt.Fprintf(r.out, "%s, seed %d: %d of %d mutants noticed\n", path, r.seed, noticed, tried)
	return nil
}

func (r runner) find(file string) ([]mutant, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	shown, err := filepath.Rel(r.root, file)
	if err != nil {
		return nil, err
	}
	mutants, err := find(shown, string(source))
	for i := range mutants {
		mutants[i].file = file
	}
	return mutants, err
}

// failure ends a mutated file. Its functions return it instead of nil.
const failure = `
type mutantError struct{}

func (mutantError) Error() string { return "mutant" }
`

// survived is the result of a mutant that no test notices.
const survived = "survived"

// test runs the tests of a package with a mutant in an overlay, so that the tree does not change.
// It returns the names of the tests that fail, survived if none does, or "" if the mutant does not
// compile.
func (r runner) test(ctx context.Context, path string, m mutant) (string, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	mutated := string(source[:m.start]) + m.text + string(source[m.end:]) + failure
	file, overlay := filepath.Join(r.temp, "mutant.go"), filepath.Join(r.temp, "overlay.json")
	content := fmt.Sprintf(`{"Replace": {%q: %q}}`, m.file, file)
	if err := os.WriteFile(file, []byte(mutated), 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, []byte(content), 0o600); err != nil {
		return "", err
	}
	args := []string{"test", "-vet=off", "-timeout=2m", "-overlay=" + overlay}
	if args = append(args, r.tests...); len(r.tests) == 0 {
		args = append(args, path)
	}
	output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	switch {
	case err == nil:
		return survived, nil
	case strings.Contains(string(output), "[build failed]"):
		return "", nil
	}
	result := "noticed by"
	failures := regexp.MustCompile(`(?m)^(?:--- FAIL: (\S+)|panic: (test .* out)|(fatal error: .*))`)
	for _, found := range failures.FindAllStringSubmatch(string(output), -1) {
		result += " " + found[1] + found[2] + found[3]
	}
	return result, nil
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
