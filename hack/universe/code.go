package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// code is what packages of a source declare: the selected functions, all types, and constants by
// their names without the package.
type code struct {
	functions []*ast.FuncDecl
	types     []*ast.TypeSpec
	constants map[string]string
}

// load parses the packages of a source. Constants are known by their names without the package.
func load(root string, s source) (*code, error) {
	c := &code{constants: map[string]string{}}
	wanted, err := regexp.Compile(s.functions)
	if err != nil {
		return nil, err
	}
	add := func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declared := range file.Decls {
			switch d := declared.(type) {
			case *ast.FuncDecl:
				c.declareFunction(d, wanted)
			case *ast.GenDecl:
				c.declare(d)
			}
		}
		return nil
	}
	for _, folder := range s.folders {
		if err := filepath.WalkDir(filepath.Join(root, folder), add); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// declareFunction keeps a function, and its text if it only returns one.
func (c *code) declareFunction(f *ast.FuncDecl, wanted *regexp.Regexp) {
	if f.Body == nil || len(f.Body.List) == 0 {
		return
	}
	if wanted.MatchString(f.Name.Name) {
		c.functions = append(c.functions, f)
	}
	if r, is := f.Body.List[0].(*ast.ReturnStmt); is && len(r.Results) == 1 {
		if text, known := c.text(r.Results[0]); known {
			c.constants[f.Name.Name+"()"] = text
		}
	}
}

func (c *code) declare(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			c.types = append(c.types, spec)
		case *ast.ValueSpec:
			for i, name := range spec.Names {
				if i < len(spec.Values) {
					if text, found := c.text(spec.Values[i]); found {
						c.constants[name.Name] = text
					}
				}
			}
		}
	}
}

// text returns the text of a literal, a constant, a sum of them or a format.
func (c *code) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, found := c.constants[e.Name]
		return text, found
	case *ast.SelectorExpr:
		return c.text(e.Sel)
	case *ast.ParenExpr:
		return c.text(e.X)
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
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.ParenExpr:
		return nameOf(e.X)
	case *ast.CallExpr:
		return nameOf(e.Fun)
	}
	return ""
}

// calls visits each call in the selected functions.
func (c *code) calls(visit func(in *ast.FuncDecl, call *ast.CallExpr)) {
	for _, f := range c.functions {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is {
				visit(f, call)
			}
			return true
		})
	}
}
