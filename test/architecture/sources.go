package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
)

// source is a parsed file of a package, without tests.
type source struct {
	pkg    string // its folder
	file   string // its path in the module
	syntax *ast.File
	set    *token.FileSet
}

func (s source) at(n ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.file, s.set.Position(n.Pos()).Line, fmt.Sprintf(format, args...))
}

// Sources returns the violations of the rules about names and main packages, one per line.
func (r Rules) Sources(t Tree) ([]string, error) {
	var found []string
	for _, p := range t.Packages {
		folder := t.folderOf(p)
		found = append(found, naming(folder, p)...)
		for _, name := range p.GoFiles {
			s := source{pkg: folder, file: path.Join(folder, name), set: token.NewFileSet()}
			var err error
			s.syntax, err = parser.ParseFile(s.set, filepath.Join(p.Dir, name), nil,
				parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", s.file, err)
			}
			found = append(found, r.file(s)...)
		}
	}
	return found, nil
}

func (r Rules) file(s source) []string {
	var found []string
	if s.syntax.Name.Name == "main" {
		found = append(found, mains(s)...)
	}
	if isIn(s.pkg, r.Shipped...) {
		found = append(found, r.restricted(s)...)
	}
	return found
}

// naming expects a package to have the name of its folder, and a name that says what it contains.
func naming(folder string, p Package) []string {
	if len(p.GoFiles) == 0 {
		return nil
	}
	var found []string
	if p.Name != "main" && p.Name != path.Base(folder) {
		found = append(found, fmt.Sprintf("%s: is named %s", folder, p.Name))
	}
	empty := []string{
		"base", "common", "helper", "helpers", "lib", "misc", "shared", "tools", "types",
		"util", "utils",
	}
	if slices.Contains(empty, p.Name) {
		found = append(found, fmt.Sprintf("%s: the name %s does not say what the package contains",
			folder, p.Name))
	}
	return found
}

// mains expects only a function main with one statement.
func mains(s source) []string {
	var found []string
	for _, d := range s.syntax.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue
		}
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "main" && len(f.Body.List) == 1 {
			continue
		}
		found = append(found, s.at(d, "a main package contains one statement"))
	}
	return found
}

// restricted finds uses of names that only other folders may use.
func (r Rules) restricted(s source) []string {
	var found []string
	for _, rule := range r.Restricted {
		if isIn(s.pkg, rule.Folders...) {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if e, ok := n.(*ast.SelectorExpr); ok && slices.Contains(rule.Names, e.Sel.Name) {
				found = append(found, s.at(e.Sel, "must not use %s: %s", e.Sel.Name, rule.Reason))
			}
			return true
		})
	}
	return found
}
