package position

import (
	"cmp"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Holder is the manifest of a ConfigMap or of a Secret.
type Holder struct {
	Kind, Name string
	Tree       *yaml.Node
	// IsUsed is true if another object refers to it.
	IsUsed bool
}

// Holders returns those among expanded documents, and the other documents.
func Holders(trees []*yaml.Node) (found []*Holder, others []*yaml.Node) {
	for _, tree := range trees {
		kind, name := Child(tree, "kind"), Child(Child(tree, "metadata"), "name")
		if kind == nil || kind.Value != "ConfigMap" && kind.Value != "Secret" {
			others = append(others, tree)
			continue
		}
		found = append(found, &Holder{kind.Value, cmp.Or(name, &yaml.Node{}).Value, tree, false})
	}
	return found, others
}

// Data returns the texts. Those that were encoded have no line, but a comment with their name.
func (h *Holder) Data() map[string]*yaml.Node {
	data := map[string]*yaml.Node{}
	for _, field := range []string{"data", "stringData"} {
		texts := Child(h.Tree, field)
		for i := 0; texts != nil && texts.Kind == yaml.MappingNode && i+1 < len(texts.Content); i += 2 {
			key, text := texts.Content[i].Value, texts.Content[i+1]
			if field == "data" && h.Kind == "Secret" {
				plain, err := base64.StdEncoding.DecodeString(text.Value)
				if err != nil {
					continue
				}
				text = &yaml.Node{Kind: yaml.ScalarNode, Value: string(plain)}
				text.HeadComment = "Secret " + h.Name + ", key " + key
			}
			data[key] = text
		}
	}
	return data
}

// reference is what an entry of a list says about an object, whatever its fields are called.
type reference struct {
	// names and keys are values of fields whose names end so.
	names, keys []string
	// ofMap and ofSecret are true if a field, or its value, is called so.
	ofMap, ofSecret bool
	// isTargeted means that a text is only a part of the values.
	isTargeted bool
}

// read adds a field, or all fields below it.
func (r *reference) read(field string, node *yaml.Node) {
	field = strings.ToLower(field)
	is := func(kind string) bool {
		return strings.HasPrefix(field, kind) ||
			node.Kind == yaml.ScalarNode && strings.EqualFold(node.Value, kind)
	}
	r.ofMap, r.ofSecret = r.ofMap || is("configmap"), r.ofSecret || is("secret")
	switch {
	case field == "targetpath":
		r.isTargeted = true
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			r.read(node.Content[i].Value, node.Content[i+1])
		}
	case node.Kind == yaml.SequenceNode:
		for _, one := range node.Content {
			r.read(field, one)
		}
	case strings.HasSuffix(field, "name"):
		r.names = append(r.names, node.Value)
	case strings.HasSuffix(field, "key"), strings.HasSuffix(field, "keys"):
		r.keys = append(r.keys, node.Value)
	}
}

// referred returns the texts to which a reference refers.
func (h *Holder) referred(r reference) []*yaml.Node {
	isOther := r.ofMap != r.ofSecret && r.ofSecret != (h.Kind == "Secret")
	if isOther || r.isTargeted || !slices.Contains(r.names, h.Name) {
		return nil
	}
	h.IsUsed = true
	if usual := h.Texts("values.yaml"); len(r.keys) == 0 && len(usual) > 0 {
		return usual
	}
	return h.Texts(r.keys...)
}

// Texts returns the texts with some keys, or all.
func (h *Holder) Texts(keys ...string) (all []*yaml.Node) {
	data := h.Data()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if len(keys) == 0 || slices.Contains(keys, key) {
			all = append(all, data[key])
		}
	}
	return all
}
