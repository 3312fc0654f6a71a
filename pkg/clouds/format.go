package clouds

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// format compares a tree with the types that it is decoded into. Unlike the errors of the decoder,
// its faults name keys and contain no values.
type format struct {
	// repeated is about the first key that a mapping contains twice. It is an error in the mappings
	// that are decoded, and only there.
	repeated string
	// faults are about values of a wrong type.
	faults []string
	// template is about a value {{ ... }}, which is a map whose key is a map.
	template string
}

// text returns the faults as the end of a message.
func (f *format) text() string {
	faults := f.faults[:min(len(f.faults), maxListed)]
	if f.repeated != "" {
		faults = []string{f.repeated}
	}
	if len(faults) == 0 {
		return ""
	}
	return ": " + strings.Join(faults, "; ")
}

func (f *format) fault(at string, node *yaml.Node, want string) {
	f.faults = append(f.faults, fmt.Sprintf("%s (line %d) must be %s, and is %s",
		cmp.Or(strings.TrimPrefix(at, "."), "the text"), node.Line, want, position.Shape(node)))
}

// check compares a node with a type.
func (f *format) check(node *yaml.Node, t reflect.Type, at string) {
	node = position.Resolved(node)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	isMap := t.Kind() == reflect.Struct || t.Kind() == reflect.Map
	switch {
	case len(node.Content) > 0 && node.Kind == yaml.MappingNode &&
		node.Content[0].Kind == yaml.MappingNode && node.Content[0].Style&yaml.FlowStyle != 0,
		isMap && position.IsTemplate(node.Value):
		f.template = position.Template(node.Line).Instead("a clouds.yaml", "")
	case f.repeated != "", node.Kind == yaml.ScalarNode && decodes(node, t):
	case isMap && node.Kind == yaml.MappingNode:
		f.checkMapping(node, t, at)
	case isMap:
		f.fault(at, node, "a map of keys, each on a line of its own, indented, without -, "+
			"as in name: value")
	case t.Kind() == reflect.Slice && node.Kind == yaml.SequenceNode:
		for _, item := range node.Content {
			f.check(item, t.Elem(), at)
		}
	case t.Kind() == reflect.Slice:
		f.fault(at, node, "a list, as in [a, b]")
	case t.Kind() == reflect.Bool && strings.Contains(node.Value, "/"):
		f.fault(at, node, "true or false. A CA belongs into key "+CAKey+" of the Secret")
	case t.Kind() == reflect.Bool:
		f.fault(at, node, "true or false, without quotation marks")
	default:
		f.fault(at, node, "one text")
	}
}

func decodes(node *yaml.Node, t reflect.Type) bool {
	return node.Decode(reflect.New(t).Interface()) == nil
}

func (f *format) checkMapping(node *yaml.Node, t reflect.Type, at string) {
	if key, problem := position.Repeated(node); key != nil {
		f.repeated = fmt.Sprintf("%s (line %d) %s",
			strings.TrimPrefix(at+"."+Printable(key.Value), "."), key.Line, problem)
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := position.Resolved(node.Content[i]), position.Resolved(node.Content[i+1])
		below := at + "." + Printable(name.Value)
		switch {
		case name.Kind != yaml.ScalarNode:
			f.fault(at, name, "a map whose keys are texts")
		case name.ShortTag() == "!!merge" && value.Kind == yaml.SequenceNode:
			for _, merged := range value.Content {
				f.check(merged, t, at)
			}
		case name.ShortTag() == "!!merge":
			f.check(value, t, at)
		case t.Kind() == reflect.Map:
			f.check(value, t.Elem(), below)
		default:
			for field := range t.Fields() {
				if key, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); key == name.Value {
					f.check(value, field.Type, below)
				}
			}
		}
	}
}
