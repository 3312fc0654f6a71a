package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// code is what packages of a module declare: the selected functions, all types, and constants by
// their names without the package; and the entries that were found in them.
type code struct {
	// component is the name of the module without its folder and version.
	component string
	functions []*ast.FuncDecl
	types     []*ast.TypeSpec
	constants map[string]string
	found     map[string]bool
}

// load parses the packages in folders of a module, with those below.
func load(root, module string, folders []string, functions string) (*code, error) {
	c := &code{
		component: path.Base(regexp.MustCompile(`/v\d+$`).ReplaceAllString(module, "")),
		constants: map[string]string{}, found: map[string]bool{},
	}
	wanted, err := regexp.Compile(functions)
	if err != nil {
		return nil, err
	}
	add := func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "testing" {
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declared := range file.Decls {
			c.declare(declared, wanted)
		}
		return nil
	}
	for _, folder := range folders {
		if err := filepath.WalkDir(filepath.Join(root, folder), add); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// declare keeps a declaration. A function that only returns a text is a constant, too.
func (c *code) declare(declared ast.Decl, wanted *regexp.Regexp) {
	switch d := declared.(type) {
	case *ast.FuncDecl:
		if d.Body == nil || len(d.Body.List) == 0 {
			return
		}
		if wanted.MatchString(d.Name.Name) {
			c.functions = append(c.functions, d)
		}
		if r, is := d.Body.List[0].(*ast.ReturnStmt); is && len(r.Results) == 1 {
			c.constant(d.Name.Name+"()", r.Results[0])
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				c.types = append(c.types, spec)
			case *ast.ValueSpec:
				for i, value := range spec.Values {
					c.constant(spec.Names[i].Name, value)
				}
			}
		}
	}
}

func (c *code) constant(name string, value ast.Expr) {
	if text, known := c.text(value); known {
		c.constants[name] = text
	}
}

// text returns the text of a literal, a constant, a sum of them or a format.
func (c *code) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident, *ast.SelectorExpr:
		text, found := c.constants[nameOf(e)]
		return text, found
	case *ast.BinaryExpr:
		left, known := c.text(e.X)
		right, known2 := c.text(e.Y)
		return left + right, known && known2
	case *ast.CallExpr:
		if nameOf(e.Fun) == "Sprintf" || nameOf(e.Fun) == "Errorf" {
			return c.text(e.Args[0])
		}
		text, found := c.constants[nameOf(e.Fun)+"()"]
		return text, found
	}
	return "", false
}

// nameOf returns the last part of a name, such as Errorf of status.Errorf.
func nameOf(e ast.Expr) string {
	all := strings.Split(pathOf(e), ".")
	return all[len(all)-1]
}

// pathOf returns a name or a call with its receivers, such as ns.Mount.FormatAndMount.
func pathOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.ParenExpr:
		return pathOf(e.X)
	case *ast.CallExpr:
		return pathOf(e.Fun)
	case *ast.SelectorExpr:
		return pathOf(e.X) + "." + e.Sel.Name
	}
	return ""
}

// nodes visits all nodes of the selected functions.
func (c *code) nodes(visit func(in *ast.FuncDecl, n ast.Node)) {
	for _, f := range c.functions {
		ast.Inspect(f, func(n ast.Node) bool {
			visit(f, n)
			return true
		})
	}
}

// calls visits all calls in the selected functions.
func (c *code) calls(visit func(in *ast.FuncDecl, call *ast.CallExpr)) {
	c.nodes(func(in *ast.FuncDecl, n ast.Node) {
		if call, is := n.(*ast.CallExpr); is {
			visit(in, call)
		}
	})
}

// add adds an entry: fields without line breaks and tabs.
func (c *code) add(fields ...string) {
	for i, field := range fields {
		fields[i] = strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(strings.TrimSpace(field))
	}
	c.found[strings.Join(fields, "\t")] = true
}
