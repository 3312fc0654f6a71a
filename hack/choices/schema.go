package main

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

type schema map[string]any

func (g generator) object(t reflect.Type) schema {
	properties, required := schema{}, []string{}
	for _, f := range choice.Fields(g.kind, t) {
		property := g.value(f)
		property["description"] = g.comment(t, f)
		properties[choice.FieldName(f)] = property
		if f.Tag.Get("required") != "" {
			required = append(required, choice.FieldName(f))
		}
	}
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// value returns the schema of a field without its description.
func (g generator) value(f reflect.StructField) schema {
	text, length := schema{"type": "string"}, number(f.Tag.Get("maxItems"))
	switch f.Type.Kind() {
	case reflect.Struct:
		return g.object(f.Type)
	case reflect.Pointer:
		return g.object(f.Type.Elem())
	case reflect.Bool:
		return schema{"type": "boolean", "default": false}
	case reflect.Int:
		low, high, _ := strings.Cut(f.Tag.Get("range"), "-")
		return schema{
			"type": "integer", "minimum": number(low), "maximum": number(high),
		}
	case reflect.Map:
		return limited(schema{"type": "object", "additionalProperties": text}, "maxProperties", length)
	case reflect.Slice:
		items := text
		if f.Type.Elem().Kind() == reflect.Struct {
			items = g.object(f.Type.Elem())
		}
		return limited(schema{"type": "array", "items": items}, "maxItems", length)
	}
	if f.Type == reflect.TypeFor[choice.Switch]() {
		return schema{"enum": []any{choice.Auto, true, false}, "default": choice.Auto}
	}
	limited(text, "maxLength", number(f.Tag.Get("max")))
	switch {
	case f.Type == reflect.TypeFor[choice.Kind]():
		text["const"] = g.kind
	case choice.FieldName(f) == "apiVersion":
		text["const"] = choice.APIVersion
	case f.Tag.Get("enum") != "":
		text["enum"] = strings.Split(f.Tag.Get("enum"), ",")
	}
	if byDefault := f.Tag.Get("default"); byDefault != "" {
		text["default"] = byDefault
	}
	return text
}

// number returns the number in a tag, or 0.
func number(tag string) int {
	n, _ := strconv.Atoi(tag) // the tags are constants
	return n
}

func limited(s schema, name string, limit int) schema {
	if limit > 0 {
		s[name] = limit
	}
	return s
}
