package choice

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// NoSuchField is the advice about a field that nothing is known about, before the names of others.
const NoSuchField = ": remove it, or write one of the fields here: "

// ofOtherKind returns a note about a field that only another kind has, "" about another field.
func (c *checker) ofOtherKind(t reflect.Type, name string) string {
	for _, f := range Fields("", t) {
		if FieldName(f) == name {
			return ": only a " + Kind(f.Tag.Get("kind")).In(c.inSpec) + " has it"
		}
	}
	return ""
}

// suggestion says what to write in place of an unknown field of a type, "" if nothing is similar.
// Fields elsewhere in the document are suggested only from and to types of this project.
func suggestion(kind Kind, t reflect.Type, name string) string {
	known := names(kind, t)
	if best := position.Similar(known, name); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	isSpelled := func(known string) bool { return position.IsSpelling(known, name) }
	if i := slices.IndexFunc(known, isSpelled); i >= 0 {
		return ": here it is called " + known[i]
	}
	isNamed := func(known string) bool { return known == name }
	parents, isChild := parentsOf(kind, t, isNamed)
	document, right := reflect.TypeFor[Document](), ""
	if IsOurs(t) && !isChild {
		right = cmp.Or(pathOf(kind, document, isNamed, true), pathOf(kind, document, isSpelled, true))
	}
	switch {
	case right != "":
		return ": write it as " + right
	case len(parents) > 0:
		return ": write it below " + strings.Join(parents, " or ")
	}
	return ""
}

// parentsOf returns the fields of a type below which a field with a matching name is nearest, and
// whether it is directly below them.
func parentsOf(
	kind Kind, t reflect.Type, matches func(name string) bool,
) (parents []string, isChild bool) {
	nearest := 0
	for _, f := range Fields(kind, t) {
		path := pathOf(kind, f.Type, matches, false)
		depth := strings.Count(path, ".")
		if path == "" || len(parents) > 0 && depth > nearest {
			continue
		}
		if depth < nearest {
			parents = nil
		}
		parent := FieldName(f)
		if f.Type.Kind() == reflect.Map {
			parent = "an entry of " + parent
		}
		parents, nearest = append(parents, parent), depth
	}
	return parents, len(parents) > 0 && nearest == 0
}

// around returns what to do about a key that is no field but contains fields of its own level, or
// merges another map; "" for others.
func around(key, value *yaml.Node, fields []reflect.StructField) string {
	if key.ShortTag() == "!!merge" {
		return ": merged maps are not supported: repeat the fields"
	}
	for i := 0; value.Kind == yaml.MappingNode && i+1 < len(value.Content); i += 2 {
		for _, f := range fields {
			if FieldName(f) == value.Content[i].Value {
				return fmt.Sprintf(": write what is below it, from %s (line %d) on, in its place, with less "+
					"indentation", FieldName(f), value.Content[i].Line)
			}
		}
	}
	return ""
}

// names returns the names of the fields of a type, and without a kind those of the types in it.
func names(kind Kind, t reflect.Type) (found []string) {
	for _, f := range Fields(kind, t) {
		found = append(found, FieldName(f))
		below := f.Type
		for below.Kind() == reflect.Pointer || below.Kind() == reflect.Slice {
			below = below.Elem()
		}
		if kind == "" && below.Kind() == reflect.Struct {
			found = append(found, names(kind, below)...)
		}
	}
	return found
}

// Fields returns the fields of a type that a kind has, with those of embedded types; without a
// kind, the fields of all kinds.
func Fields(kind Kind, t reflect.Type) []reflect.StructField {
	var found []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		restricted := f.Tag.Get("kind")
		switch {
		case f.Anonymous:
			found = append(found, Fields(kind, f.Type)...)
		case kind == "" || restricted == "" || restricted == string(kind):
			found = append(found, f)
		}
	}
	return found
}

// FieldName returns the name of a field in a document.
func FieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// IsOurs returns whether a type is declared in this project; others are Kubernetes' own.
func IsOurs(t reflect.Type) bool { return !strings.HasPrefix(t.PkgPath(), "k8s.io/") }

// IsRequired returns whether a struct must contain a field. Kubernetes omits no required field.
func IsRequired(kind Kind, t reflect.Type, f reflect.StructField) bool {
	required := f.Tag.Get("required")
	return required == "true" || required == string(kind) && kind != "" ||
		!IsOurs(t) && !strings.HasSuffix(f.Tag.Get("json"), ",omitempty")
}

// pathOf returns the first of the shortest paths below a type to a field with a matching name, ""
// if there is none.
func pathOf(kind Kind, t reflect.Type, matches func(string) bool, ours bool) (shortest string) {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[resource.Quantity]() || ours && !IsOurs(t) {
		return ""
	}
	for _, f := range Fields(kind, t) {
		path := FieldName(f)
		if matches(path) {
			return path
		}
		below := pathOf(kind, f.Type, matches, ours)
		if path += "." + below; below != "" &&
			(shortest == "" || strings.Count(path, ".") < strings.Count(shortest, ".")) {
			shortest = path
		}
	}
	return shortest
}

// unreadable returns the error about a text that is no YAML, or no mapping with each key once.
func unreadable(kind Kind, text []byte, err error) error {
	_, syntax := position.Tree(text, maxText)
	at := position.Position{File: Key}
	switch other := position.Recognize(text, position.ConfigMap); {
	case other.What != "" && other.What != position.OperatorYML:
		at.Line = max(other.Line, 1)
		return position.ErrorAt(at, "%s", notChoices(kind, other))
	case syntax != nil && !errors.As(syntax, new(position.LimitError)):
		found := position.FirstInvalid(text, names("", reflect.TypeFor[Document]()))
		at.Line, found.Line = max(found.Line, 1), 0
		return position.ErrorAt(at, "the text %s", found)
	}
	return err
}

// notChoices returns a sentence about a text of another format.
func notChoices(kind Kind, other position.Other) string {
	other.Line = 0 // the fault has it
	expected := "a " + string(kind)
	if strings.HasPrefix(other.What, position.OperatorYML) {
		expected = position.OperatorYML
	}
	return "the text " + other.Instead(expected, "write apiVersion: "+APIVersion+", kind: "+
		string(kind)+", and the fields below them")
}
