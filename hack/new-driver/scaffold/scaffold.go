// Package scaffold creates the files of a new driver from templates. Only hack/new-driver calls it.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// templates contains the new files by their paths in the repository. NAME in a path is the driver's
// name. Placeholders have double square brackets, because the files use curly ones.
//
//go:embed all:template
var templates embed.FS

type values struct {
	Name  string // of the driver's folders, in lower case
	Title string // the same with a capital letter, for names of conditions
	// Ports are free on every node: liveness of the controller, liveness and registrar of the node
	// plugin.
	Ports []int
}

// Main creates the driver that the arguments name, and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("new-driver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "folder of the repository")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		fmt.Fprintln(stderr, "new-driver: give one name: make new-driver NAME=demo")
		return 2
	}
	files, err := scaffold(*root, flags.Arg(0))
	if err == nil {
		err = write(*root, files)
	}
	if err != nil {
		fmt.Fprintf(stderr, "new-driver: %v\n", err)
		return 1
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(stdout, file)
	}
	return 0
}

// scaffold returns the files of a new driver by their paths in the repository.
func scaffold(root, name string) (map[string][]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	ports, err := freePorts(root, 3)
	if err != nil {
		return nil, err
	}
	filling := values{Name: name, Title: strings.ToUpper(name[:1]) + name[1:], Ports: ports}
	files := map[string][]byte{}
	err = fs.WalkDir(templates, "template", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		target := strings.ReplaceAll(strings.TrimPrefix(file, "template/"), "NAME", name)
		target = strings.TrimSuffix(target, ".tmpl")
		files[target], err = render(file, target, filling)
		return err
	})
	return files, err
}

// checkName reports a name that cannot be a Go package and a part of the names of objects.
func checkName(name string) error {
	if !regexp.MustCompile(`^[a-z][a-z0-9]{1,19}$`).MatchString(name) {
		return fmt.Errorf("NAME %q must consist of 2 to 20 lower-case letters and digits "+
			"and start with a letter", name)
	}
	taken := []string{
		"assets", "bundle", "cli", "context", "hook", "internal", "main", "operator", "os", "plugin",
		"testdata", "vendor",
	}
	if token.IsKeyword(name) || slices.Contains(taken, name) {
		return fmt.Errorf("NAME %q has another meaning in the code: choose another name", name)
	}
	return nil
}

func render(file, target string, filling values) ([]byte, error) {
	parsed, err := template.New(path.Base(file)).Delims("[[", "]]").ParseFS(templates, file)
	if err != nil {
		return nil, fmt.Errorf("parsing template: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, filling); err != nil {
		return nil, fmt.Errorf("filling template: %w", err)
	}
	if path.Ext(target) != ".go" {
		return out.Bytes(), nil
	}
	formatted, err := format.Source(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("formatting %s: %w", target, err)
	}
	return formatted, nil
}

// freePorts returns ports of the drivers' range that no driver.yaml allocates.
func freePorts(root string, count int) ([]int, error) {
	manifests, err := filepath.Glob(filepath.Join(root, "assets", "drivers", "*", "driver.yaml"))
	if err != nil || len(manifests) == 0 {
		err = errors.Join(fmt.Errorf("there are no drivers in assets/drivers"), err)
		return nil, fmt.Errorf("%s is not the root of the repository: %w", root, err)
	}
	taken := map[int]bool{}
	for _, manifest := range manifests {
		text, err := os.ReadFile(manifest)
		if err != nil {
			return nil, fmt.Errorf("reading the ports of a driver: %w", err)
		}
		var driver struct {
			Controller, Node struct{ Ports map[string]int }
		}
		if err := yaml.Unmarshal(text, &driver); err != nil {
			return nil, fmt.Errorf("reading the ports in %s: %w", manifest, err)
		}
		for _, ports := range []map[string]int{driver.Controller.Ports, driver.Node.Ports} {
			for _, port := range ports {
				taken[port] = true
			}
		}
	}
	const first = 10310 // most ports below belong to drivers of other clouds
	var free []int
	for port := first; len(free) < count; port++ {
		if !taken[port] {
			free = append(free, port)
		}
	}
	return free, nil
}

// write creates the files, or none if one of them exists.
func write(root string, files map[string][]byte) error {
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if _, err := os.Lstat(filepath.Join(root, file)); !errors.Is(err, fs.ErrNotExist) {
			err = errors.Join(fmt.Errorf("choose another NAME, or remove that driver"), err)
			return fmt.Errorf("%s already exists: %w", file, err)
		}
	}
	for file, content := range files {
		place := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			return fmt.Errorf("creating folder: %w", err)
		}
		if err := os.WriteFile(place, content, 0o644); err != nil {
			return fmt.Errorf("writing file: %w", err)
		}
	}
	return nil
}
