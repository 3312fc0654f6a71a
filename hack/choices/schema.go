package main

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

type schema map[string]any

// maxCost is the cost of a rule in CEL that API servers of Kubernetes accept, as they estimate it.
// It grows with the number of texts, the length of each and that of the pattern.
const maxCost = 10_000_000

// fixed returns whether nobody can set a field: OpenShift fixes the folder of the kubelet.
func (g generator) fixed(f reflect.StructField) bool { return f.Name == "KubeletDir" && !g.api }

func (g generator) object(t reflect.Type) schema {
	properties, required := schema{}, []string{}
	for _, f := range choice.Fields(g.kind, t) {
		if g.fixed(f) {
			continue
		}
		property := g.value(f.Type, f)
		if description := g.comment(t, f); description != "" {
			property["description"] = description
		}
		if g.api {
			g.complete(property, t, f)
		}
		properties[choice.FieldName(f)] = property
		if choice.IsRequired(g.kind, t, f) {
			required = append(required, choice.FieldName(f))
		}
	}
	s := schema{"type": "object", "properties": properties}
	if !g.api {
		s["additionalProperties"] = false
	}
	if len(required) > 0 {
		s["required"] = required
	}
	if g.api {
		addRules(s, requirements(t))
	}
	return s
}

// complete adds to a property what only the schema of an object contains. It has no defaults except
// of managementState: the API server would store them in each entry of a list, where they would
// override the values for all entries. So the description contains them.
func (g generator) complete(property schema, t reflect.Type, f reflect.StructField) {
	if _, declared := t.FieldByName(f.Name); declared && isEntry(t, f) {
		property["description"] = fmt.Sprint(property["description"],
			" The default is the value in `class`.")
	} else if value := f.Tag.Get("default"); value != "" {
		property["description"] = fmt.Sprintf("%s The default is `%s`.", property["description"], value)
	}
	addRules(property, choice.RuleOf(g.kind, f.Tag.Get("rule")).Expressions)
	g.completePods(property, f)
}

// isEntry returns whether a field is an option of all entries and of each, and whether the entry
// replaces it.
func isEntry(t reflect.Type, f reflect.StructField) bool {
	embedded, found := t.FieldByName("Class")
	_, own := reflect.TypeFor[choice.Class]().FieldByName(f.Name)
	return found && embedded.Anonymous && own && f.Type.Kind() != reflect.Map
}

// value returns the schema of a value of a type in a field, without its description.
func (g generator) value(t reflect.Type, f reflect.StructField) schema {
	switch t.Kind() {
	case reflect.Struct:
		if t == reflect.TypeFor[resource.Quantity]() {
			return g.quantity("quantity")
		}
		return g.object(t)
	case reflect.Pointer:
		return g.value(t.Elem(), f)
	case reflect.Bool:
		if g.api || f.Tag.Get("default") == "" {
			return schema{"type": "boolean"}
		}
		return schema{"type": "boolean", "default": false}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if low, high, limited := strings.Cut(f.Tag.Get("range"), "-"); limited {
			return schema{"type": "integer", "minimum": number(low), "maximum": number(high)}
		}
		return schema{"type": "integer"}
	case reflect.Map:
		s := schema{
			"type": "object", "additionalProperties": g.each().value(t.Elem(), f),
			"maxProperties": choice.MaxItems,
		}
		if t.Elem() == reflect.TypeFor[resource.Quantity]() {
			g.addBytes(s)
		}
		return s
	case reflect.Slice:
		return schema{
			"type": "array", "items": g.each().value(t.Elem(), f), "maxItems": choice.MaxItems,
		}
	}
	text := g.text(f)
	if values := g.constants[t.Name()]; values != nil && !choice.IsOurs(t) {
		text["enum"] = values
	}
	if value := f.Tag.Get("default"); value != "" &&
		(!g.api || choice.FieldName(f) == "managementState") {
		text["default"] = value
	}
	return text
}

// each returns the generator of the elements of a list or a map.
func (g generator) each() generator {
	of := g
	of.entries *= choice.MaxItems
	return of
}

// addBytes makes the schema of quantities refuse fractions of bytes.
func (g generator) addBytes(quantities schema) {
	if g.api {
		addRules(quantities, choice.RuleOf(g.kind, "byteCount").Expressions)
		return
	}
	quantities["patternProperties"] = schema{
		choice.RuleOf(g.kind, "byteKeys").Pattern: g.quantity("byteCount"),
	}
}

// quantity returns the schema of a quantity, which is a text or a number.
func (g generator) quantity(name string) schema {
	rule := choice.RuleOf(g.kind, name)
	s := schema{"anyOf": []schema{{"type": "integer"}, {"type": "string"}}, "pattern": rule.Pattern}
	if g.api {
		s["x-kubernetes-int-or-string"] = true
	}
	return s
}

// text returns the schema of a text, or of each text in a list or a map.
func (g generator) text(f reflect.StructField) schema {
	rule := choice.RuleOf(g.kind, f.Tag.Get("rule"))
	text := schema{"type": "string"}
	limit := cmp.Or(number(f.Tag.Get("max")), rule.Max)
	if limit > 0 {
		text["maxLength"] = limit
	}
	g.addPattern(text, rule.Pattern, rule.Advice)
	switch {
	case f.Type == reflect.TypeFor[choice.Kind]():
		text["const"] = g.kind
	case choice.FieldName(f) == "apiVersion":
		text["const"] = choice.APIVersion
	case f.Tag.Get("enum") != "":
		text["enum"] = strings.Split(f.Tag.Get("enum"), ",")
	case f.Tag.Get("required") != "":
		text["minLength"] = 1
	}
	return text
}

// addPattern adds the pattern of texts to their schema. API servers say only that a text does not
// match a pattern, so their schemas contain a rule with the advice, unless it would cost too much.
func (g generator) addPattern(text schema, pattern, advice string) {
	limit, _ := text["maxLength"].(int)
	switch {
	case pattern == "":
	case g.api && g.entries*limit*len(pattern)/10 < maxCost:
		addRules(text, []choice.Expression{{CEL: "self.matches(r'" + pattern + "')", Message: advice}})
	default:
		text["pattern"] = pattern
	}
}

// number returns the number in a tag, or 0.
func number(tag string) int {
	n, _ := strconv.Atoi(tag) // the tags are constants
	return n
}
