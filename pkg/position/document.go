// Package position reads a YAML document and reports each mistake in it with its line. It also
// recognizes texts of other formats, by formats.txt. pkg/generator reads the layers of assets with
// it; pkg/clouds, pkg/choice and the plugin of Cinder read what people write.
package position

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// Document is a text that contains one YAML document.
type Document struct {
	// File is the name of the text in errors.
	File string
	Text []byte
	// Root is the tree of the text. Its kind is 0 if the text is empty.
	Root yaml.Node

	content any
	fields  []locatedField
}

type locatedField struct {
	path []string
	line int
}

// Parse reads a text. A second document and a duplicate key are errors.
func Parse(file string, text []byte) (*Document, error) {
	d := &Document{File: file, Text: text}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&d.Root); err != nil && !errors.Is(err, io.EOF) {
		return nil, d.syntaxError(err)
	}
	if err := limited(&d.Root); err != nil {
		return nil, ErrorAt(Position{file, 1}, "the text %w", err)
	}
	if err := d.checkKeys(&d.Root); err != nil {
		return nil, err
	}
	if err := d.Decode(&d.content); err != nil {
		return nil, err
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		at := Position{File: file, Line: second.Line}
		return nil, ErrorAt(at, "a second YAML document: each file contains one")
	case !errors.Is(err, io.EOF):
		return nil, d.syntaxError(err)
	}
	return d, nil
}

// Decode decodes the document by the rules of YAML.
func (d *Document) Decode(into any) error {
	return d.syntaxError(d.Root.Decode(into))
}

// DecodeStrictly decodes the document by the rules of the Kubernetes API. An unknown field is a
// strict decoding error. Errors have no position.
func (d *Document) DecodeStrictly(into any) error {
	text, err := json.Marshal(d.content)
	if err != nil {
		return err
	}
	unknown, err := kjson.UnmarshalStrict(text, into)
	if err == nil && len(unknown) > 0 {
		err = runtime.NewStrictDecodingError(unknown)
	}
	return err
}

// Errorf returns an Error at a field, given by its path in the object ("spec.ports[0].name").
func (d *Document) Errorf(field, format string, args ...any) error {
	return ErrorAt(d.At(field), format, args...)
}

// At returns the position of a field. The document may be a part of the object, a merge patch or a
// JSON 6902 patch: the field whose own path ends most like the given path counts.
func (d *Document) At(field string) Position {
	at, best := Position{File: d.File, Line: 1}, 0
	if d.fields == nil {
		eachField(&d.Root, nil, func(path []string, line int) {
			d.fields = append(d.fields, locatedField{path, line})
		})
	}
	want := elements(field)
	for _, one := range d.fields {
		if score := similarity(one.path, want); score > best {
			at.Line, best = one.line, score
		}
	}
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
		const keys = 4 // op, from, path and value
		if len(node.Content) <= 2*keys && node.Decode(&operation) == nil && operation.Op != "" &&
			operation.Path.Value != "" {
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
