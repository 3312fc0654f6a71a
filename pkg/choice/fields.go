package choice

import (
	"reflect"
	"strings"
)

// ofOtherKind returns a note about a field that only another kind has, "" about another field.
func ofOtherKind(t reflect.Type, name string) string {
	for _, f := range Fields("", t) {
		if FieldName(f) == name {
			return ": only a " + f.Tag.Get("kind") + " has it"
		}
	}
	return ""
}

// Fields returns the fields of Config, or of a type in it, that a kind has, with those of embedded
// types; without a kind, the fields of all kinds.
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
