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
	// isShared is true if the text is what the values of the chart set for both drivers.
	isShared bool
}

// documentsIn returns the choices in a file as operator.yaml: the whole file, a key of a ConfigMap,
// the spec of a ManilaDriver or CinderDriver, or the values of the chart for each driver. The
// parser of the operators reports what is no YAML.
func documentsIn(text []byte) []document {
	whole := []document{{kind: kindOf(text), text: string(text)}}
	root, err := position.Tree(text, maxFile)
	if err != nil || len(root.Content) == 0 {
		return whole
	}
	if kind := child(root.Content[0], "kind"); kind != nil {
		for _, d := range drivers() {
			spec := child(root.Content[0], "spec")
			if spec != nil && d.ownKind() == kind.Value {
				return []document{ofSpec(d.kind, spec, text)}
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
		text := content.Value
		return []document{{kind: kindOf([]byte(text)), text: text, before: before}}
	}
	if !isValues(root.Content[0], text) {
		return whole
	}
	var parts []document
	for _, d := range drivers() {
		values := child(root.Content[0], strings.ToLower(d.title))
		spec, enabled := child(values, "spec"), child(values, "enabled")
		if spec == nil && enabled != nil && enabled.Value == "true" {
			spec = &yaml.Node{Kind: yaml.MappingNode}
		}
		if spec != nil && spec.Kind == yaml.MappingNode {
			parts = append(parts, ofSpec(d.kind, spec, text))
		}
	}
	shared := ofMap(choice.Manila, root.Content[0], text, func(name string) bool {
		return name != "pods" && name != "kubeletDir"
	})
	shared.isShared = true
	return append(parts, shared)
}

// isValues returns whether a map without a kind is the values of our chart.
func isValues(top *yaml.Node, text []byte) bool {
	has := func(key string) bool { return child(top, key) != nil }
	if has("apiVersion") || position.Recognize(text, "").What == position.OtherValues {
		return false
	}
	shared := 0
	for _, key := range []string{"clusterID", "csiAddons", "kubeletDir", "pods"} {
		if has(key) { // it is also a field of each driver
			shared++
		}
	}
	const keyAndValue = 2
	return shared > 0 && len(top.Content) == keyAndValue*shared || slices.ContainsFunc([]string{
		"manila", "cinder", "snapshotController", "monitoring", "images", "credentials", "proxy",
		"global",
	}, has)
}

// ofSpec returns the choices in a spec as an operator.yaml.
func ofSpec(kind choice.Kind, spec *yaml.Node, text []byte) document {
	others := map[string]bool{}
	for _, f := range choice.Fields(kind, reflect.TypeFor[api.Spec]()) {
		others[choice.FieldName(f)] = true
	}
	for _, f := range choice.Fields(kind, reflect.TypeFor[choice.Config]()) {
		delete(others, choice.FieldName(f))
	}
	return ofMap(kind, spec, text, func(name string) bool { return others[name] })
}

// ofMap returns a map without some of its keys as an operator.yaml. Lines of a map in braces are
// not known.
func ofMap(
	kind choice.Kind, config *yaml.Node, text []byte, isOther func(key string) bool,
) document {
	lines := strings.SplitAfter(string(text), "\n")
	dropOthers(config, lines, isOther)
	header := "apiVersion: " + choice.APIVersion + "\nkind: " + string(kind) + "\n"
	if len(config.Content) == 0 {
		return document{kind: kind, text: header, inSpec: true}
	}
	if config.Style&yaml.FlowStyle != 0 {
		config.Style &^= yaml.FlowStyle
		block, _ := yaml.Marshal(config) // a parsed node
		return document{kind, header + string(block), config.Line - 3, true, false}
	}
	indent := strings.Repeat(" ", config.Column-1)
	for _, line := range lines[config.Line-1:] {
		rest, inside := strings.CutPrefix(line, indent)
		if strings.TrimSpace(line) != "" && !inside {
			break
		}
		header += rest
	}
	return document{kind, header, config.Line - 3, true, false}
}

// dropOthers removes keys from a map, and from its lines. What follows the map may go, too.
func dropOthers(config *yaml.Node, lines []string, isOther func(key string) bool) {
	end := len(lines)
	for i := len(config.Content) - 2; i >= 0; i -= 2 {
		key := config.Content[i]
		if isOther(key.Value) {
			for n := key.Line - 1; n < end && config.Style&yaml.FlowStyle == 0; n++ {
				lines[n] = "\n"
			}
			config.Content = slices.Delete(config.Content, i, i+2)
		}
		end = key.Line - 1
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
