package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// rows returns the rows of the fields of a struct, and of the fields below them. The options of a
// StorageClass are listed once.
func (g generator) rows(t reflect.Type, parent string) string {
	var out strings.Builder
	for _, f := range g.fields(t) {
		name := parent + choice.FieldName(f)
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s%s |\n", name, typeOf(f), defaultOf(f), g.only(f),
			g.comment(t, f))
		switch {
		case f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct:
			out.WriteString(g.rows(f.Type.Elem(), name+"."))
		case f.Type.Kind() == reflect.Struct:
			out.WriteString(g.rows(f.Type, name+"."))
		case isList(f):
			out.WriteString(g.ownRows(f.Type.Elem(), name+"[]."))
		}
	}
	return out.String()
}

// ownRows returns the rows of the fields that a struct does not embed.
func (g generator) ownRows(t reflect.Type, parent string) string {
	rows := ""
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Anonymous:
			rows += fmt.Sprintf("| `%s*` | | | Each field of `class`. |\n", parent)
		default:
			rows += fmt.Sprintf("| `%s%s` | %s | %s | %s |\n", parent, choice.FieldName(f), typeOf(f),
				defaultOf(f), g.comment(t, f))
		}
	}
	return rows
}

// only says which kind has a field, unless all have it.
func (g generator) only(f reflect.StructField) string {
	if kind := f.Tag.Get("kind"); kind != "" {
		return "`" + choice.Kind(kind).In(g.api) + "` only. "
	}
	return ""
}

// typeOf returns the type of a field, or its values.
func typeOf(f reflect.StructField) string {
	switch values := f.Tag.Get("enum"); {
	case f.Type.Kind() == reflect.Bool, f.Type == reflect.TypeFor[*bool]():
		return "`true`, `false`"
	case f.Type.Kind() == reflect.Struct, f.Type.Kind() == reflect.Pointer:
		return "object"
	case f.Type.Kind() == reflect.Int, f.Type.Kind() == reflect.Int64:
		return "number, " + f.Tag.Get("range")
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
	switch value := f.Tag.Get("default"); {
	case f.Tag.Get("required") != "":
		return "required"
	case value != "":
		return "`" + value + "`"
	}
	return ""
}

func isList(f reflect.StructField) bool {
	return f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct
}
