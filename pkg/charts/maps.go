package charts

import (
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func nested(path string, value any) map[string]any {
	first, rest, found := strings.Cut(path, ".")
	if found {
		value = nested(rest, value)
	}
	return map[string]any{first: value}
}

// merged returns what is in one of two maps, or in both.
func merged(base, other map[string]any) map[string]any {
	both := map[string]any{}
	maps.Copy(both, base)
	for key, value := range other {
		from, _ := base[key].(map[string]any)
		if to, isMap := value.(map[string]any); isMap {
			value = merged(from, to)
		}
		if value == nil { // as Helm removes a value
			delete(both, key)
		} else {
			both[key] = value
		}
	}
	return both
}

func lookUp(values map[string]any, name string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(values, strings.Split(name, ".")...)
	return value
}

func isEmpty(value any) bool {
	of := reflect.ValueOf(value)
	return value == nil || (of.Kind() == reflect.Map || of.Kind() == reflect.Slice ||
		of.Kind() == reflect.String) && of.Len() == 0
}
