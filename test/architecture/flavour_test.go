package architecture_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// decidesFlavour returns whether a file may ask which flavour a cluster is: those that define and
// choose it, and the generator, which makes the assets of each.
func decidesFlavour(file string) bool {
	return slices.ContainsFunc([]string{"flavour/", "settings/", "generator/"},
		func(folder string) bool { return strings.HasPrefix(file, folder) })
}

// Code asks what a cluster has, not which flavour it is. A hosted control plane differs in shape.
func TestNothingAsksForTheFlavour(t *testing.T) {
	t.Parallel()
	asking := map[string]bool{"All": true, "OnOpenShift": true, "OpenShift": true}
	for _, name := range constants(t, "../../pkg/flavour/flavour.go", "Flavour") {
		asking[name] = true
	}
	assert.Assert(t, len(asking) == 6, "the package defines %v", asking)
	pkg := os.DirFS("../../pkg")
	err := fs.WalkDir(pkg, ".", func(file string, _ fs.DirEntry, err error) error {
		if filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") || decidesFlavour(file) {
			return err
		}
		for _, place := range selections(t, filepath.Join("../../pkg", file), asking) {
			t.Errorf("%s: ask what the cluster has, or make the difference data of pkg/flavour", place)
		}
		return err
	})
	assert.NilError(t, err)
}

func parsed(t *testing.T, file string) (*token.FileSet, *ast.File) {
	t.Helper()
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
	assert.NilError(t, err)
	return files, tree
}

// constants returns the names of the constants of a type.
func constants(t *testing.T, file, typeName string) (names []string) {
	t.Helper()
	_, tree := parsed(t, file)
	ast.Inspect(tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == typeName {
			names = append(names, spec.Names[0].Name)
		}
		return false
	})
	return names
}

// selections returns where a file selects one of the names from the package flavour, or the method
// OpenShift from anything.
func selections(t *testing.T, file string, names map[string]bool) (places []string) {
	t.Helper()
	files, tree := parsed(t, file)
	ast.Inspect(tree, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok || !names[selector.Sel.Name] {
			return true
		}
		of, _ := selector.X.(*ast.Ident)
		if selector.Sel.Name == "OpenShift" || of != nil && of.Name == "flavour" {
			places = append(places, files.Position(selector.Pos()).String())
		}
		return true
	})
	return places
}
