package position

import (
	"cmp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ChartValues finds values of a chart in an expanded tree of an object or a file: the keys of Flux,
// Argo CD, kustomize, k3s, Fleet, helmfile and others begin with "values". Argo CD also has
// parameters, which override them.
type ChartValues struct {
	// Fits returns whether the text in a scalar may be parsed. Aliases can repeat it.
	Fits func(*yaml.Node) bool
	// Are returns whether a mapping is values of the chart. For parameters alone it is empty.
	Are func(*yaml.Node) bool
	// Add is called with the values.
	Add func(*yaml.Node)
}

// Find calls Add with values below a node.
func (v ChartValues) Find(node *yaml.Node) {
	var parameters []*yaml.Node
	values := &yaml.Node{}
	for i, child := range node.Content {
		key := ""
		if node.Kind == yaml.MappingNode && i%2 == 1 {
			key = strings.ToLower(node.Content[i-1].Value)
		}
		if key == "parameters" {
			parameters = child.Content
		}
		if !strings.HasPrefix(key, "values") {
			v.Find(child)
			continue
		}
		if child.Kind == yaml.ScalarNode && v.Fits(child) {
			child = treeIn(child)
		}
		all := []*yaml.Node{child}
		if child.Kind == yaml.SequenceNode { // of helmfile; names of files are texts
			all = child.Content
		}
		for _, one := range all {
			if one.Kind != yaml.MappingNode || !v.Are(one) {
				v.Find(one)
				continue
			}
			if values.Kind != 0 {
				v.Add(values)
			}
			values = one
		}
	}
	if values.Kind == 0 && len(parameters) > 0 {
		values = &yaml.Node{Kind: yaml.MappingNode, Line: parameters[0].Line}
		if !v.Are(values) {
			return
		}
	}
	if values.Kind != 0 {
		override(values, parameters)
		v.Add(values)
	}
}

func override(values *yaml.Node, parameters []*yaml.Node) {
	for _, one := range parameters {
		name, value := Child(one, "name"), Child(one, "value")
		if name == nil || value == nil {
			continue
		}
		read := *value
		if force := Child(one, "forceString"); force == nil || force.Value != "true" {
			read.Style, read.Tag = 0, "" // as helm --set reads it
		}
		const levels = 100
		set(values, strings.SplitN(name.Value, ".", levels), &read)
	}
}

// set sets a value below a mapping, as helm --set does.
func set(mapping *yaml.Node, path []string, value *yaml.Node) {
	if mapping.Kind != yaml.MappingNode {
		return
	}
	if len(path) > 1 {
		below := cmp.Or(Child(mapping, path[0]),
			&yaml.Node{Kind: yaml.MappingNode, Line: value.Line})
		set(below, path[1:], value)
		value = below
	}
	rest := Without(mapping, func(key string) bool { return key == path[0] })
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: path[0], Line: value.Line}
	mapping.Content = append(rest.Content, key, value)
}

// Without returns a mapping without some of its keys.
func Without(mapping *yaml.Node, isOther func(key string) bool) *yaml.Node {
	rest := *mapping
	rest.Content = nil
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if !isOther(mapping.Content[i].Value) {
			rest.Content = append(rest.Content, mapping.Content[i], mapping.Content[i+1])
		}
	}
	return &rest
}

// LinesBefore returns the number of lines before the text in a scalar.
func LinesBefore(scalar *yaml.Node) int {
	if scalar.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return scalar.Line
	}
	return scalar.Line - 1
}

// treeIn returns the tree of a text in a scalar; the scalar if it has none.
func treeIn(scalar *yaml.Node) *yaml.Node {
	tree, err := Tree([]byte(scalar.Value), len(scalar.Value))
	if err != nil || len(tree.Content) == 0 {
		return scalar
	}
	inner := Expanded(tree.Content[0])
	moveDown(inner, LinesBefore(scalar))
	return inner
}

func moveDown(node *yaml.Node, lines int) {
	node.Line += lines
	for _, child := range node.Content {
		moveDown(child, lines)
	}
}
