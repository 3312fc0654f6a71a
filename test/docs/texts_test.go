package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"gotest.tools/v3/assert"
)

// A quotation may leave out the start and the end of a text. It contains `...`, N or a number where
// the text contains a value.
func TestQuotationsOfConditionsAreTexts(t *testing.T) {
	t.Parallel()
	known := strings.Join(texts(t), "\n")
	value := regexp.MustCompile(`\.\.\.|\bN\b|\b\d\w*`)
	found := quotations(read(t, conditionsPage))
	for _, quotation := range found {
		for _, part := range value.Split(quotation, -1) {
			assert.Check(t, strings.Contains(known, strings.Trim(part, " ,:")),
				"docs/conditions.md quotes %q, but no text contains %q", quotation, part)
		}
	}
	assert.Check(t, len(found) >= 8, "docs/conditions.md contains only the quotations %q", found)
}

// quotations returns what a page quotes outside of code.
func quotations(page string) []string {
	code := regexp.MustCompile("(?m)^    .*$|`[^`]*`")
	var found []string
	for _, match := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(
		code.ReplaceAllString(page, ""), -1) {
		found = append(found, strings.Join(strings.Fields(match[1]), " "))
	}
	return found
}

// texts returns every text in the Go files of pkg, except for the generator, which no program of a
// cluster links. Each message of a condition or an event is made of these, except for those of
// library-go and of API servers. `...` is an operand of `+` that is not a text.
func texts(t *testing.T) (all []string) {
	t.Helper()
	inspect(t, func(_ string, node ast.Node) bool {
		return !collect(node, func(text string) { all = append(all, text) })
	})
	return all
}

// inspect calls visit for the nodes of the Go files in pkg, as ast.Inspect does.
func inspect(t *testing.T, visit func(folder string, node ast.Node) bool) {
	t.Helper()
	for _, name := range files(t, os.DirFS(root), ".go") {
		folder := path.Dir(name)
		if !strings.HasPrefix(folder, "pkg/") || strings.HasPrefix(folder, "pkg/generator") ||
			strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil,
			parser.SkipObjectResolution)
		assert.NilError(t, err)
		ast.Inspect(file, func(node ast.Node) bool { return visit(folder, node) })
	}
}

// collect calls found if a node is a text with a space, also one that `+` joins. It returns whether
// it is done with the node.
func collect(node ast.Node, found func(string)) bool {
	var text string
	switch node := node.(type) {
	case *ast.Field:
		node.Tag = nil
		return false
	case *ast.BasicLit:
		text = joined(node, found)
	case *ast.BinaryExpr:
		if node.Op != token.ADD {
			return false
		}
		text = joined(node, found)
	default:
		return false
	}
	if strings.Contains(text, " ") && strings.ContainsFunc(text, unicode.IsLetter) {
		found(text)
	}
	return true
}

// joined returns the text of an expression, with `...` for what is not a literal. It calls found
// for the texts inside of these.
func joined(expression ast.Expr, found func(string)) string {
	switch e := expression.(type) {
	case *ast.BinaryExpr:
		return joined(e.X, found) + joined(e.Y, found)
	case *ast.ParenExpr:
		return joined(e.X, found)
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			if err != nil {
				return err.Error()
			}
			return text
		}
	}
	ast.Inspect(expression, func(node ast.Node) bool {
		_, literal := node.(*ast.BasicLit)
		return literal || !collect(node, found)
	})
	return "..."
}
