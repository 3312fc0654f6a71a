// Command choices writes docs/configuration.md and assets/schema from the types of pkg/choice.
// hack/update.sh calls it.
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

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// intro is the start of the page.
//
//go:embed intro.txt
var intro string

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
	comments, err := readComments(filepath.Join(root, "pkg/choice/choice.go"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, kind := range []choice.Kind{choice.Manila, choice.Cinder} {
		g := generator{kind, comments}
		schema := g.object(reflect.TypeFor[choice.Config]())
		schema["$schema"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", kind
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("encoding the schema of %s: %w", kind, err)
		}
		name := strings.ToLower(string(kind)) + ".v1alpha1.json"
		files[filepath.Join("assets/schema", name)] = string(text) + "\n"
	}
	files["docs/configuration.md"] = intro +
		generator{comments: comments}.rows(reflect.TypeFor[choice.Config](), "")
	return files, nil
}

// readComments returns the comments of fields by the names of type and field.
func readComments(file string) (map[string]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("reading comments: %w", err)
	}
	comments := map[string]string{}
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
	return comments, nil
}

// generator describes the types of a kind, or of all kinds.
type generator struct {
	kind     choice.Kind
	comments map[string]string
}

// comment returns the comment of a field of a type, or of a type that is embedded there.
func (g generator) comment(t reflect.Type, f reflect.StructField) string {
	if found := g.comments[t.Name()+"."+f.Name]; found != "" {
		return found
	}
	for i := range t.NumField() {
		if embedded := t.Field(i); embedded.Anonymous {
			return g.comment(embedded.Type, f)
		}
	}
	return ""
}

func main() {
	os.Exit(run(".", os.Stderr))
}
