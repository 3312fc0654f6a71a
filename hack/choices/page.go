package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// rows returns the rows of the fields of a struct, and of the fields below them. An embedded type
// that is documented elsewhere has one row.
func (g generator) rows(t reflect.Type, parent string) string {
	var out strings.Builder
	for i := range t.NumField() {
		f := t.Field(i)
		if as := f.Tag.Get("as"); as != "" {
			fmt.Fprintf(&out, "| `%s*` | | | Each field of `%s`. |\n", parent, as)
			continue
		}
		if f.Anonymous {
			out.WriteString(g.rows(f.Type, parent))
			continue
		}
		name := parent + choice.FieldName(f)
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s%s |\n", name, typeOf(f), defaultOf(f), g.only(f),
			g.comment(t, f))
		if below := elementOf(f.Type); below.Kind() == reflect.Struct && choice.IsOurs(below) {
			if isList(f) {
				name += "[]"
			}
			out.WriteString(g.rows(below, name+"."))
		}
	}
	return out.String()
}

// elementOf returns the type of the values in a type.
func elementOf(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return elementOf(t.Elem())
	}
	return t
}

// only says which kind has a field, or that operator.yaml does not have it.
func (g generator) only(f reflect.StructField) string {
	if kind := f.Tag.Get("kind"); kind != "" {
		return "`" + choice.Kind(kind).In(g.api) + "` only. "
	}
	if (generator{}).fixed(f) {
		return "Not in `operator.yaml`. "
	}
	return ""
}

// typeOf returns the type of a field, or its values. Types of Kubernetes have their names there.
func typeOf(f reflect.StructField) string {
	element := elementOf(f.Type)
	switch values := f.Tag.Get("enum"); {
	case element.Kind() == reflect.Struct && !choice.IsOurs(element):
		return map[reflect.Kind]string{
			reflect.Slice: "list of ", reflect.Map: "map of ",
		}[f.Type.Kind()] + "`" + element.Name() + "`"
	case element.Kind() == reflect.Bool:
		return "`true`, `false`"
	case f.Tag.Get("range") != "":
		return "number, " + f.Tag.Get("range")
	case f.Type.Kind() == reflect.Struct, f.Type.Kind() == reflect.Pointer:
		return "object"
	case f.Type.Kind() == reflect.Map:
		return "map of texts"
	case isList(f):
		return "list of objects"
	case f.Type.Kind() == reflect.Slice && values != "":
		return "list of `" + strings.ReplaceAll(values, ",", "`, `") + "`"
	case f.Type.Kind() == reflect.Slice:
		return "list of texts"
	case values != "":
		return "`" + strings.ReplaceAll(values, ",", "`, `") + "`"
	}
	return "text"
}

func defaultOf(f reflect.StructField) string {
	switch value, required := f.Tag.Get("default"), f.Tag.Get("required"); {
	case required == "true":
		return "required"
	case required != "":
		return "required for " + strings.TrimSuffix(required, "Config")
	case value != "":
		return "`" + value + "`"
	}
	return ""
}

func isList(f reflect.StructField) bool {
	return f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct
}
