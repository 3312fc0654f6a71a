// Command choices writes assets/schema from the types of pkg/choice, and docs/api.md and the
// CustomResourceDefinitions from those of pkg/api. It also writes docs/charts.md. hack/update.sh
// calls it.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// The page without the rows of its tables, and the parts that the CustomResourceDefinitions have in
// common.
var (
	//go:embed api.txt
	apiPage string
	//go:embed crd.yaml
	definition []byte
)

// run writes the files into the repository, and returns the exit code of the command.
func run(root string, stderr io.Writer) int {
	files, err := generate(root)
	for name, content := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), []byte(content), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "choices:", err)
		return 1
	}
	return 0
}

// generate returns the files by their paths in the repository.
func generate(root string) (map[string]string, error) {
	comments, err := readComments(root, "pkg/choice/choice.go", "pkg/api/api.go")
	if err != nil {
		return nil, err
	}
	constants, err := readConstants(root)
	if err != nil {
		return nil, err
	}
	values, err := chartsPage()
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		"docs/charts.md": values,
		"docs/api.md":    apiTables(comments),
	}
	for _, kind := range []choice.Kind{choice.Manila, choice.Cinder} {
		g := generator{kind: kind, comments: comments, constants: constants}
		schema := g.object(reflect.TypeFor[choice.Document]())
		schema["$schema"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", kind
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("encoding the schema of %s: %w", kind, err)
		}
		name := strings.ToLower(string(kind)) + ".v1alpha1.json"
		files[filepath.Join("assets/schema", name)] = string(text) + "\n"
	}
	g := generator{comments: comments, constants: constants, api: true, entries: 1}
	return files, g.addDefinitions(root, files)
}

// apiTables returns the page about the API: operator.yaml has the fields of one of its tables.
func apiTables(comments map[string]string) string {
	g := generator{comments: comments, api: true}
	return strings.NewReplacer(
		"{operator}\n", g.rows(reflect.TypeFor[api.Operator](), "spec."),
		"{choices}\n", g.rows(reflect.TypeFor[choice.Config](), "spec."),
		"{driver}\n", g.rows(reflect.TypeFor[api.Driver](), "spec."),
	).Replace(apiPage)
}

// readComments returns the comments of fields by the names of type and field.
func readComments(root string, names ...string) (map[string]string, error) {
	comments := map[string]string{}
	for _, name := range names {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil,
			parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("reading comments: %w", err)
		}
		addComments(comments, parsed)
	}
	return comments, nil
}

func addComments(comments map[string]string, parsed *ast.File) {
	ast.Inspect(parsed, func(node ast.Node) bool {
		declared, ok := node.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if structure, ok := declared.Type.(*ast.StructType); ok {
			for _, field := range structure.Fields.List {
				for _, name := range field.Names {
					words := strings.Fields(field.Doc.Text())
					comments[declared.Name.Name+"."+name.Name] = strings.Join(words, " ")
				}
			}
		}
		return false
	})
}

// generator describes the types of a kind, or of all kinds.
type generator struct {
	kind     choice.Kind
	comments map[string]string
	// constants are the values of types in Kubernetes' API.
	constants map[string][]string
	// api is true for the fields of an object, and not of the key operator.yaml.
	api bool
	// entries is the maximum number of values of a field, in lists and maps.
	entries int
}

// comment returns the comment of a field of a type, or of a type that is embedded there.
func (g generator) comment(t reflect.Type, f reflect.StructField) string {
	if found := g.comments[t.Name()+"."+f.Name]; found != "" {
		return found
	}
	for i := range t.NumField() {
		if embedded := t.Field(i); embedded.Anonymous {
			if found := g.comment(embedded.Type, f); found != "" {
				return found
			}
		}
	}
	return ""
}

func main() {
	os.Exit(run(".", os.Stderr))
}
