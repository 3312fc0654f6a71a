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

// source is a file that is not a test.
type source struct {
	pkg    string // its folder
	file   string // its path in the module
	syntax *ast.File
	set    *token.FileSet
}

func (s source) at(n ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.file, s.set.Position(n.Pos()).Line, fmt.Sprintf(format, args...))
}

// Sources returns, one a line, what breaks the rules about names, comments, mains, state and the environment.
func (r Rules) Sources(t Tree) ([]string, error) {
	var found []string
	for _, p := range t.Packages {
		folder := t.folderOf(p)
		found = append(found, naming(folder, p)...)
		for _, name := range p.GoFiles {
			s := source{pkg: folder, file: path.Join(folder, name), set: token.NewFileSet()}
			var err error
			s.syntax, err = parser.ParseFile(s.set, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
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
	if isIn(s.pkg, r.Stateless...) {
		found = append(found, state(s)...)
	}
	if isIn(s.pkg, r.Shipped...) {
		found = append(found, r.doors(s)...)
	}
	if isIn(s.pkg, r.Shipped...) && !isIn(s.pkg, r.Environment...) {
		found = append(found, environment(s, slices.Contains(r.Lookups, s.file))...)
	}
	return found
}

// naming wants a comment on each package, and a noun that is its folder's name.
func naming(folder string, p Package) []string {
	if len(p.GoFiles) == 0 {
		return nil
	}
	var found []string
	if p.Doc == "" {
		found = append(found, folder+": has no package comment")
	}
	if p.Name != "main" && p.Name != path.Base(folder) {
		found = append(found, fmt.Sprintf("%s: is named %s", folder, p.Name))
	}
	empty := []string{"base", "common", "helper", "helpers", "lib", "misc", "shared", "tools", "types", "util", "utils"}
	if slices.Contains(empty, p.Name) {
		found = append(found, fmt.Sprintf("%s: the name %s says nothing", folder, p.Name))
	}
	return found
}

// mains wants one statement in main and nothing beside it.
func mains(s source) []string {
	var found []string
	for _, d := range s.syntax.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue
		}
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "main" && len(f.Body.List) == 1 {
			continue
		}
		found = append(found, s.at(d, "a main holds one statement"))
	}
	return found
}

// state finds init functions and variables that a program could change.
func state(s source) []string {
	var found []string
	for _, d := range s.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				found = append(found, s.at(d, "init runs unasked"))
			}
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && !isConstant(v) {
					found = append(found, s.at(v, "variable %s of the package can change", v.Names[0].Name))
				}
			}
		}
	}
	return found
}

// isConstant allows what the language has no constant for: errors, compiled patterns and assertions about types.
func isConstant(v *ast.ValueSpec) bool {
	if !slices.ContainsFunc(v.Names, func(n *ast.Ident) bool { return n.Name != "_" }) {
		return true
	}
	if len(v.Values) == 0 {
		return false
	}
	return !slices.ContainsFunc(v.Values, func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		return !ok || !slices.Contains([]string{"errors.New", "regexp.MustCompile"}, selector(call.Fun))
	})
}

// environment finds uses of the process's environment. A file with a lookup may name os.LookupEnv, as a value.
func environment(s source, lookup bool) []string {
	forbidden := []string{
		"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "os.Setenv", "os.Unsetenv", "os.Clearenv",
		"syscall.Getenv", "syscall.Environ", "syscall.Setenv",
	}
	called := map[ast.Node]bool{}
	var found []string
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			called[call.Fun] = true
		}
		e, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(forbidden, selector(e)) {
			return true
		}
		if !lookup || selector(e) != "os.LookupEnv" || called[e] {
			found = append(found, s.at(e, "%s belongs to the settings", selector(e)))
		}
		return true
	})
	return found
}

// doors finds uses of names that belong to another folder.
func (r Rules) doors(s source) []string {
	var found []string
	for _, door := range r.Doors {
		if isIn(s.pkg, door.Folders...) {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if e, ok := n.(*ast.SelectorExpr); ok && slices.Contains(door.Names, e.Sel.Name) {
				found = append(found, s.at(e.Sel, "must not use %s: %s", e.Sel.Name, door.Why))
			}
			return true
		})
	}
	return found
}

// selector returns package.Name of an expression. Renamed imports of the standard library escape it; nobody has them.
func selector(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + s.Sel.Name
}
