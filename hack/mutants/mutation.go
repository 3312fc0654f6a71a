package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// mutant is one change of a file.
type mutant struct {
	file       string
	start, end int    // the bytes that text replaces
	text       string // what replaces them
	name       string // position and change
}

// finder collects the mutants of a file, of which some may not compile.
type finder struct {
	path, source string
	positions    *token.File
	mutants      []mutant
}

func find(path, source string) ([]mutant, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil || ast.IsGenerated(parsed) {
		return nil, err
	}
	f := &finder{path: path, source: source, positions: files.File(parsed.Pos())}
	ast.Inspect(parsed, f.visit)
	return f.mutants, nil
}

// visit adds the mutants of a node, and reports whether its children can be mutated. Log messages,
// which no test needs to notice, are not.
func (f *finder) visit(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.BinaryExpr:
		f.operator(n.OpPos, n.Op)
	case *ast.IncDecStmt:
		f.operator(n.TokPos, n.Tok)
	case *ast.BranchStmt:
		f.operator(n.TokPos, n.Tok)
	case *ast.IfStmt:
		f.negate(n.Cond)
	case *ast.ReturnStmt:
		f.result(n.Results)
	case *ast.ExprStmt:
		if regexp.MustCompile(`^(klog|log|logger)\..*(Info|Error|Warn)\w*\(`).MatchString(f.text(n)) {
			return false
		}
		if _, call := n.X.(*ast.CallExpr); call {
			f.replace(n, "")
		}
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE && !strings.HasPrefix(f.text(n), "_ =") {
			f.replace(n, "")
		}
	case *ast.ValueSpec:
		f.texts(n.Values)
	case *ast.CaseClause:
		f.texts(n.List)
	case *ast.BasicLit:
		if number, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			f.replace(n, strconv.FormatInt(2*number+1, 10))
		}
	case *ast.Ident:
		if other := map[string]string{"true": "false", "false": "true"}[n.Name]; other != "" {
			f.replace(n, other)
		}
	}
	return true
}

// operator negates a condition, moves a boundary, or changes a result or the end of a loop.
func (f *finder) operator(start token.Pos, old token.Token) {
	if text := map[token.Token]string{
		token.EQL: "!=", token.NEQ: "==", token.LAND: "||", token.LOR: "&&",
		token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
		token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*",
		token.INC: "--", token.DEC: "++", token.BREAK: "continue", token.CONTINUE: "break",
	}[old]; text != "" {
		f.add(start, start+token.Pos(len(old.String())), text)
	}
}

// negate negates a condition, unless its operator becomes the opposite anyway.
func (f *finder) negate(condition ast.Expr) {
	binary, ok := condition.(*ast.BinaryExpr)
	if !ok || binary.Op != token.EQL && binary.Op != token.NEQ {
		f.replace(condition, "!("+f.text(condition)+")")
	}
}

// result swaps an error, which is the last result, and nil.
func (f *finder) result(results []ast.Expr) {
	if len(results) == 0 {
		return
	}
	last := results[len(results)-1]
	if text := f.text(last); text == "nil" {
		f.replace(last, "mutantError{}")
	} else if regexp.MustCompile(`^(err$|fmt\.Errorf\(|errors\.New\()`).MatchString(text) {
		f.replace(last, "nil")
	}
}

func (f *finder) texts(values []ast.Expr) {
	for _, value := range values {
		if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			f.replace(literal, `"mutant"`)
		}
	}
}

func (f *finder) text(node ast.Node) string {
	return f.source[f.positions.Offset(node.Pos()):f.positions.Offset(node.End())]
}

func (f *finder) replace(node ast.Node, text string) { f.add(node.Pos(), node.End(), text) }

func (f *finder) add(start, end token.Pos, text string) {
	m := mutant{start: f.positions.Offset(start), end: f.positions.Offset(end), text: text}
	old := strings.Join(strings.Fields(f.source[m.start:m.end]), " ")
	position := f.positions.Position(start)
	m.name = fmt.Sprintf("%s:%d:%d: %.60s -> %.60s", f.path, position.Line, position.Column, old, text)
	f.mutants = append(f.mutants, m)
}
