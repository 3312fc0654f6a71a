package position

import (
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

// Of returns a document with a tree that is a part of a text. Errors have the lines of the text.
func Of(file string, root *yaml.Node) (*Document, error) {
	d := &Document{File: file, Root: yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{root}}}
	if err := d.checkKeys(&d.Root); err != nil {
		return nil, err
	}
	return d, d.Decode(&d.content)
}

// Expanded returns a tree with each alias replaced by its content, and each merge key (<<) by the
// entries that it adds. The tree must be within the limits of Tree.
func Expanded(node *yaml.Node) *yaml.Node {
	whole := *Resolved(node)
	children := whole.Content
	whole.Anchor, whole.Content = "", nil
	var merged []*yaml.Node
	for i, child := range children {
		switch {
		case whole.Kind != yaml.MappingNode || children[i&^1].ShortTag() != "!!merge":
			whole.Content = append(whole.Content, Expanded(child))
		case i%2 == 1 && Resolved(child).Kind == yaml.SequenceNode:
			merged = append(merged, Expanded(child).Content...)
		case i%2 == 1:
			merged = append(merged, Expanded(child))
		}
	}
	for _, one := range merged {
		for i := 0; i+1 < len(one.Content); i += 2 {
			if Child(&whole, one.Content[i].Value) == nil {
				whole.Content = append(whole.Content, one.Content[i], one.Content[i+1])
			}
		}
	}
	return &whole
}

// Objects returns expanded documents, with the objects in place of a List.
func Objects(documents []*yaml.Node) (all []*yaml.Node) {
	for _, document := range documents {
		tree := Expanded(document)
		kind, items := Child(tree, "kind"), Child(tree, "items")
		if kind == nil || kind.Value != "List" || items == nil {
			all = append(all, tree)
		} else {
			all = append(all, Objects(items.Content)...)
		}
	}
	return all
}

// Child returns the value of a key of a mapping; nil if there is none.
func Child(mapping *yaml.Node, key string) *yaml.Node {
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

// Value returns what Helm and kubectl read in an expanded tree: they follow YAML 1.1, in which a
// plain yes, on or n is a switch.
func Value(node *yaml.Node) any {
	switch node.Kind {
	case yaml.MappingNode:
		value := map[string]any{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			value[Key(node.Content[i])] = Value(node.Content[i+1])
		}
		return value
	case yaml.SequenceNode:
		value := []any{}
		for _, item := range node.Content {
			value = append(value, Value(item))
		}
		return value
	}
	const texts = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle |
		yaml.FoldedStyle
	var value any
	if node.Style&texts != 0 || IsText(node) || kyaml.Unmarshal([]byte(node.Value), &value) != nil {
		return node.Value
	}
	return value
}

// Key returns what Helm and kubectl read as the key of a mapping.
func Key(node *yaml.Node) string { return fmt.Sprint(Value(node)) }

// isSwitch matches the switches of YAML 1.1 (https://yaml.org/type/bool.html).
var isSwitch = regexp.MustCompile(
	`^(y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$`)

// IsText returns whether Helm and kubectl read a scalar as a text.
func IsText(node *yaml.Node) bool {
	return node.ShortTag() == "!!str" && (node.Style != 0 || !isSwitch.MatchString(node.Value))
}
