package position

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ChartValues finds values of charts in an expanded tree of an object or a file, whatever tool
// reads it: the keys of Flux, Argo CD, Cluster API, kustomize, k3s, Fleet, helmfile and others
// begin with "values". Argo CD also has valueFiles, and parameters, which override values.
type ChartValues struct {
	// Charts are the names of the charts.
	Charts []string
	// Tree returns the tree of a text, or of the file that it names; the scalar if it has none.
	Tree func(scalar *yaml.Node, chart string) *yaml.Node
	// Are returns whether a mapping is values of one of the charts, or contains them. The name is that
	// of the chart for which the file has the mapping, perhaps another one; "" if it does not say.
	Are func(values *yaml.Node, chart string) bool
	// Add is called with the values of a release, of which later ones override others, and the same
	// name.
	Add func(layers []*yaml.Node, chart string)
	// Holders are the objects to whose texts entries of lists may refer.
	Holders []*Holder
	// Elsewhere is called with the key of what else changes the release, such as values that are not
	// in the file.
	Elsewhere func(key *yaml.Node)
}

// Find calls Add with values below a node.
func (w ChartValues) Find(node *yaml.Node) { w.find(node, "") }

// find searches below a node. The chart is what the mapping around the node says.
func (w ChartValues) find(node *yaml.Node, chart string) {
	if node.Kind != yaml.MappingNode {
		for _, child := range node.Content {
			w.find(child, chart)
		}
		return
	}
	own := w.named(node)
	chart = cmp.Or(own, chart)
	var layers []*yaml.Node
	var parameters *yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, child := node.Content[i], node.Content[i+1]
		name := strings.ToLower(key.Value)
		isElsewhere := name == "postrenderers"
		switch {
		case name == "parameters":
			parameters = child
		case name == "files": // of which kustomize makes a ConfigMap for anybody
			layers = append(layers, w.valuesIn(child, "", false)...)
		case strings.HasPrefix(name, "values"), strings.HasSuffix(name, "valuefiles"),
			strings.HasSuffix(name, "valuesfiles"):
			found := w.valuesIn(child, chart, name == "values")
			isElsewhere = found == nil
			if child.Kind == yaml.SequenceNode && name != "values" { // Flux and Argo CD apply these first
				isElsewhere, layers = len(found) < len(child.Content), append(found, layers...)
			} else {
				layers = append(layers, found...)
			}
		default:
			w.find(child, own)
		}
		if isElsewhere && isFilled(child) && slices.Contains(w.Charts, chart) {
			w.Elsewhere(key)
		}
	}
	if parameters != nil && len(parameters.Content) > 0 &&
		(layers != nil || slices.Contains(w.Charts, chart)) {
		if layers == nil {
			layers = []*yaml.Node{{Kind: yaml.MappingNode, Line: parameters.Line}}
		}
		override(layers[len(layers)-1], parameters)
	}
	if layers != nil {
		w.Add(layers, chart)
	}
}

// isFilled returns whether there are references to values: a text or a list that is not empty.
func isFilled(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Value != "" ||
		node.Kind == yaml.SequenceNode && len(node.Content) > 0
}

// valuesIn returns the values that are below a key: themselves, their text, or a list with them.
// The entries of other lists may be references to values.
func (w ChartValues) valuesIn(node *yaml.Node, chart string, named bool) (found []*yaml.Node) {
	switch node.Kind {
	case yaml.ScalarNode:
		if tree := w.Tree(node, chart); tree.Kind == yaml.MappingNode {
			return w.valuesIn(tree, chart, named)
		}
	case yaml.MappingNode:
		if w.Are(node, chart) {
			return []*yaml.Node{node}
		}
		w.find(node, chart)
	case yaml.SequenceNode:
		for _, one := range node.Content {
			if one.Kind != yaml.MappingNode || named {
				found = append(found, w.valuesIn(one, chart, named)...)
				continue
			}
			var texts []*yaml.Node
			to := reference{}
			to.read("", one)
			for _, h := range w.Holders {
				texts = append(texts, h.referred(to)...)
			}
			for _, text := range append(texts, one.Content...) { // of a reference
				if text.Kind == yaml.ScalarNode && strings.Contains(text.Value, "\n") {
					found = append(found, w.valuesIn(text, chart, named)...)
				}
			}
		}
	}
	return found
}

// named returns the chart that an object or a file installs, "" for none or several of them.
func (w ChartValues) named(node *yaml.Node) string {
	for _, keys := range [][]string{{"chart", "chartName"}, {"name", "url"}} {
		names := namesIn(node, keys, map[string]bool{})
		isOther := func(chart string) bool { return !names[chart] }
		ours := slices.DeleteFunc(slices.Clone(w.Charts), isOther)
		switch {
		case len(ours) == 1:
			return ours[0]
		case len(ours) == 0 && len(names) > 0 && keys[0] == "chart":
			return slices.Sorted(maps.Keys(names))[0]
		case len(names) > 0:
			return ""
		}
	}
	return ""
}

// version matches what follows the name of a chart in the name of its file.
var version = regexp.MustCompile(`-v?[0-9]+\.[0-9].*\.tgz$`)

// namesIn collects the last steps of texts with some keys, without the version of a file.
func namesIn(node *yaml.Node, keys []string, names map[string]bool) map[string]bool {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 1 && child.Kind == yaml.ScalarNode &&
			slices.Contains(keys, node.Content[i-1].Value) {
			names[version.ReplaceAllString(path.Base(child.Value), "")] = true
		}
		namesIn(child, keys, names)
	}
	return names
}

func override(values, parameters *yaml.Node) {
	for _, one := range parameters.Content {
		name, value := Child(one, "name"), Child(one, "value")
		if name == nil || value == nil {
			continue
		}
		read := *value
		read.Style, read.Tag = 0, "!!str"
		if force := Child(one, "forceString"); force == nil || force.Value != "true" {
			read.Tag = setTag(value.Value)
		}
		set(values, steps(name.Value), &read)
	}
}

// steps returns the path in the name of a parameter. A backslash precedes a dot that is part of a
// key.
func steps(name string) []string {
	const levels, dot = 100, "\x00"
	all := strings.SplitN(strings.ReplaceAll(name, `\.`, dot), ".", levels)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], dot, ".")
	}
	return all
}

// setTag returns the type of a value as helm --set reads it: a number with a zero before it or with
// a fraction is a text.
func setTag(value string) string {
	switch value {
	case "true", "false":
		return "!!bool"
	case "null":
		return "!!null"
	}
	if _, err := strconv.ParseInt(value, 10, 64); err == nil && (value == "0" || value[0] != '0') {
		return "!!int"
	}
	return "!!str"
}

// set sets a value below a mapping, as helm --set does.
func set(mapping *yaml.Node, path []string, value *yaml.Node) {
	if mapping.Kind != yaml.MappingNode {
		return
	}
	if len(path) > 1 {
		below := cmp.Or(Child(mapping, path[0]), &yaml.Node{Kind: yaml.MappingNode, Line: value.Line})
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

// NamesChart returns whether an object or a file installs a chart.
func NamesChart(node *yaml.Node, chart string) bool {
	return namesIn(node, []string{"chart", "chartName", "name", "url"}, map[string]bool{})[chart]
}

// LinesBefore returns the number of lines before the text in a scalar.
func LinesBefore(scalar *yaml.Node) int {
	if scalar.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return scalar.Line
	}
	return scalar.Line - 1
}

// InnerTree returns the expanded tree of a text in a scalar, with the lines of the whole file; the
// scalar if it has none, or more than limit bytes.
func InnerTree(scalar *yaml.Node, limit int) *yaml.Node {
	tree, err := Tree([]byte(scalar.Value), limit)
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
