package architecture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// Tree is a Go module.
type Tree struct {
	Module   string
	Packages []Package
}

// Package is a package in the output of `go list`.
type Package struct {
	ImportPath                         string
	Folder                             string // relative to the root of the module
	Imports, TestImports, XTestImports []string
	Deps                               []string
	Module                             struct{ Path string }
}

// Load lists the packages of the module in a folder.
func Load(ctx context.Context, dir string) (Tree, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-tags=integration",
		"-json=ImportPath,Imports,TestImports,XTestImports,Deps,Module", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return Tree{}, fmt.Errorf("listing the packages in %q: %w\n%s", dir, err, stderr.String())
	}
	var tree Tree
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return tree, nil
		} else if err != nil {
			return Tree{}, fmt.Errorf("reading the list of packages: %w", err)
		}
		tree.Module = p.Module.Path
		p.Folder, _ = tree.folder(p.ImportPath)
		tree.Packages = append(tree.Packages, p)
	}
}

// folder returns the folder of a package, or false for a package of another module.
func (t Tree) folder(importPath string) (string, bool) {
	return strings.CutPrefix(importPath, t.Module+"/")
}

// allImports returns the imports of the package and of its tests.
func (p Package) allImports() []string {
	all := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
	slices.Sort(all)
	return slices.Compact(all)
}

// match returns the part of a folder that a pattern matches: a/b of a/b/c for a/*. It returns false
// if the pattern does not match.
func match(pattern, folder string) (string, bool) {
	parts, n := strings.Split(folder, "/"), strings.Count(pattern, "/")+1
	if len(parts) < n {
		return "", false
	}
	head := strings.Join(parts[:n], "/")
	ok, err := path.Match(pattern, head)
	return head, err == nil && ok
}

// Contains returns true if the pattern matches the folder of a package.
func (t Tree) Contains(pattern string) bool {
	return slices.ContainsFunc(t.Packages, func(p Package) bool {
		_, ok := match(pattern, p.Folder)
		return ok
	})
}
