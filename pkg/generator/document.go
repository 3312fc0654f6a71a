package generator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// document is a file of the assets folder that contains one YAML document.
type document struct {
	file    string
	text    []byte // its build-time placeholders are replaced
	root    yaml.Node
	content any
}

// parse reads a file's text. A second document and a duplicate key are errors.
func parse(file string, text []byte) (*document, error) {
	d := &document{file: file, text: text}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&d.root); err != nil && !errors.Is(err, io.EOF) {
		return nil, d.syntaxError(err)
	}
	if err := d.decode(&d.content); err != nil {
		return nil, err
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		at := Position{File: file, Line: second.Line}
		return nil, errorAt(at, "a second YAML document: each file contains one")
	case !errors.Is(err, io.EOF):
		return nil, d.syntaxError(err)
	}
	return d, nil
}

// decode decodes the document by the rules of YAML.
func (d *document) decode(into any) error {
	return d.syntaxError(d.root.Decode(into))
}

// decodeStrictly decodes the document by the rules of the Kubernetes API. An unknown field is an
// error.
func (d *document) decodeStrictly(into any) error {
	text, err := json.Marshal(d.content)
	if err != nil {
		return d.errorf("", "decoding manifest: %w", err)
	}
	unknown, err := kjson.UnmarshalStrict(text, into)
	if err == nil && len(unknown) > 0 {
		err = runtime.NewStrictDecodingError(unknown)
	}
	return d.fieldError(path.Base(d.file), err)
}

// beside returns the path of a file that the document names relative to itself.
func (d *document) beside(file string) string {
	return path.Join(path.Dir(d.file), file)
}

// source is a field of a manifest, where an asset or a patch comes from.
type source struct {
	*document
	field *field.Path
}

func (d *document) source(name string, more ...string) source {
	return source{document: d, field: field.NewPath(name, more...)}
}

func (s source) index(i int) source {
	return source{document: s.document, field: s.field.Index(i)}
}

func (s source) position() Position {
	return s.document.position(s.field.String())
}

func (s source) errorf(format string, args ...any) error {
	return errorAt(s.position(), format, args...)
}

// errorf returns an Error at a field, given by its path in the object ("spec.ports[0].name").
func (d *document) errorf(field, format string, args ...any) error {
	return errorAt(d.position(field), format, args...)
}

// position returns the position of a field. The document may be a part of the object, a merge patch
// or a JSON 6902 patch: the field whose own path ends most like the given path counts.
func (d *document) position(field string) Position {
	at, best := Position{File: d.file, Line: 1}, 0
	want := elements(field)
	eachField(&d.root, nil, func(path []string, line int) {
		if score := similarity(path, want); score > best {
			at.Line, best = line, score
		}
	})
	return at
}

// elements splits the path of a field, or a JSON pointer, into keys and indexes.
func elements(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]/", r) })
}

// eachField visits the fields below a node. In a JSON 6902 operation these are the fields that its
// path and its value name.
func eachField(node *yaml.Node, parent []string, visit func(path []string, line int)) {
	below := func(key string, line int, value *yaml.Node) {
		path := append(parent[:len(parent):len(parent)], elements(key)...)
		visit(path, line)
		eachField(value, path, visit)
	}
	switch node.Kind {
	case yaml.DocumentNode:
		eachField(node.Content[0], parent, visit)
	case yaml.SequenceNode:
		for i, value := range node.Content {
			below(strconv.Itoa(i), value.Line, value)
		}
	case yaml.MappingNode:
		var operation struct {
			Op          string
			Path, Value yaml.Node
		}
		if node.Decode(&operation) == nil && operation.Op != "" && operation.Path.Value != "" {
			parent = nil
			below(operation.Path.Value, operation.Path.Line, &operation.Value)
			return
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			below(node.Content[i].Value, node.Content[i].Line, node.Content[i+1])
		}
	}
}

// similarity rates how much of their ends two paths share. Different indexes count less than equal
// ones, because a patch and its target list elements in different orders.
func similarity(a, b []string) int {
	score := 0
	for i := 1; i <= min(len(a), len(b)); i++ {
		left, right := a[len(a)-i], b[len(b)-i]
		switch {
		case left == right:
			score += 2
		case i > 1 && isIndex(left) && isIndex(right):
			score++
		default:
			return score
		}
	}
	if len(a) == len(b) {
		score++
	}
	return score
}

func isIndex(element string) bool {
	_, err := strconv.Atoi(element)
	return err == nil || element == "-"
}
