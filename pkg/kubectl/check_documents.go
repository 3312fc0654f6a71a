package kubectl

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// maxFile is the maximum size of a file with documents, in bytes.
const maxFile = 1 << 20

// document is the text of an operator.yaml, and the number of lines before it in its file.
type document struct {
	kind   choice.Kind
	text   string
	before int
	// inSpec is true if the text is the spec of an object.
	inSpec bool
}

// documentsIn returns the choices in a file as operator.yaml: the whole file, a key of a ConfigMap,
// the spec of a ManilaDriver or CinderDriver, or the values of the chart for each driver. The
// parser of the operators reports what is no YAML.
func documentsIn(text []byte) []document {
	whole := []document{{kindOf(text), string(text), 0, false}}
	root, err := position.Tree(text, maxFile)
	if err != nil || len(root.Content) == 0 {
		return whole
	}
	if kind := child(root.Content[0], "kind"); kind != nil {
		for _, d := range drivers() {
			spec := child(root.Content[0], "spec")
			if spec != nil && d.ownKind() == kind.Value {
				return []document{ofValues(d.kind, spec, text)}
			}
		}
		content := child(child(root.Content[0], "data"), choice.Key)
		if kind.Value != "ConfigMap" || content == nil {
			return whole
		}
		before := content.Line - 1
		if content.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			before++
		}
		return []document{{kindOf([]byte(content.Value)), content.Value, before, false}}
	}
	var parts []document
	for _, d := range drivers() {
		config := child(child(root.Content[0], strings.ToLower(d.title)), "spec")
		if config != nil && config.Kind == yaml.MappingNode {
			parts = append(parts, ofValues(d.kind, config, text))
		}
	}
	if len(parts) == 0 {
		return whole
	}
	return parts
}

// ofValues returns the choices in a spec as an operator.yaml. Lines of a map in braces are not
// known.
func ofValues(kind choice.Kind, config *yaml.Node, text []byte) document {
	lines := strings.SplitAfter(string(text), "\n")
	dropOthers(kind, config, lines)
	header := "apiVersion: " + choice.APIVersion + "\nkind: " + string(kind) + "\n"
	if config.Style&yaml.FlowStyle != 0 {
		config.Style &^= yaml.FlowStyle
		block, _ := yaml.Marshal(config) // a parsed node
		return document{kind, header + string(block), config.Line - 3, true}
	}
	indent := strings.Repeat(" ", config.Column-1)
	for _, line := range lines[config.Line-1:] {
		rest, inside := strings.CutPrefix(line, indent)
		if strings.TrimSpace(line) != "" && !inside {
			break
		}
		header += rest
	}
	return document{kind, header, config.Line - 3, true}
}

// dropOthers removes the fields of a spec that are no choices from the map, and from its lines.
func dropOthers(kind choice.Kind, config *yaml.Node, lines []string) {
	others := map[string]bool{}
	for _, f := range choice.Fields(kind, reflect.TypeFor[api.Spec]()) {
		others[choice.FieldName(f)] = true
	}
	for _, f := range choice.Fields(kind, reflect.TypeFor[choice.Config]()) {
		delete(others, choice.FieldName(f))
	}
	for i := len(config.Content) - 2; i >= 0; i -= 2 {
		key := config.Content[i]
		if !others[key.Value] {
			continue
		}
		end := key.Line
		if i+2 < len(config.Content) {
			end = config.Content[i+2].Line - 1
		}
		for n := key.Line - 1; n < end && config.Style&yaml.FlowStyle == 0; n++ {
			lines[n] = "\n"
		}
		config.Content = slices.Delete(config.Content, i, i+2)
	}
}

// child returns the value of a key; nil if there is none.
func child(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// kindOf returns the kind of an operator.yaml, or the one that is most like it.
func kindOf(text []byte) choice.Kind {
	var header struct {
		Kind string `json:"kind"`
	}
	_ = kyaml.Unmarshal(text, &header) // the parser reports errors
	if strings.Contains(strings.ToLower(header.Kind), "cinder") {
		return choice.Cinder
	}
	return choice.Manila
}
