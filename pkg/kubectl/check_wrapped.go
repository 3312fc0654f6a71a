package kubectl

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// chartName is the name of our chart.
const chartName = "openstack-csi"

// addWithin adds the values of our chart somewhere in an object or a file: the keys of Flux, Argo
// CD, kustomize, k3s, Fleet, helmfile and others begin with "values". Argo CD also has parameters,
// which override them.
func (c *fileContents) addWithin(node *yaml.Node, namesChart bool) {
	var parameters []*yaml.Node
	values := &yaml.Node{}
	for i, child := range node.Content {
		key := ""
		if node.Kind == yaml.MappingNode && i%2 == 1 {
			key = strings.ToLower(node.Content[i-1].Value)
		}
		tree := child
		if strings.HasPrefix(key, "values") && child.Kind == yaml.ScalarNode {
			tree = c.treeIn(child)
		}
		if key == "parameters" {
			parameters = children(child)
		}
		if !strings.HasPrefix(key, "values") {
			c.addWithin(child, namesChart)
			continue
		}
		all := []*yaml.Node{tree}
		if tree.Kind == yaml.SequenceNode { // of helmfile; names of files are texts
			all = tree.Content
		}
		for _, one := range all {
			if one.Kind != yaml.MappingNode || !namesChart && !hasDriver(one) {
				c.addWithin(one, namesChart)
				continue
			}
			if values.Kind != 0 {
				c.addValues(values)
			}
			values = one
		}
	}
	if values.Kind == 0 && namesChart && len(parameters) > 0 {
		values = &yaml.Node{Kind: yaml.MappingNode, Line: parameters[0].Line}
	}
	if values.Kind == 0 {
		return
	}
	for _, one := range parameters {
		name, value := position.Child(one, "name"), position.Child(one, "value")
		if name == nil || value == nil {
			continue
		}
		read := *value
		if force := position.Child(one, "forceString"); force == nil || force.Value != "true" {
			read.Style, read.Tag = 0, "" // as helm --set reads it
		}
		const levels = 100
		set(values, strings.SplitN(name.Value, ".", levels), &read)
	}
	c.addValues(values)
}

// hasDriver returns whether values configure a driver.
func hasDriver(values *yaml.Node) bool {
	return slices.ContainsFunc(drivers(), func(d driver) bool {
		return position.Child(values, strings.ToLower(d.title)) != nil
	})
}

// set sets a value below a mapping, as helm --set does.
func set(mapping *yaml.Node, path []string, value *yaml.Node) {
	if mapping.Kind != yaml.MappingNode {
		return
	}
	if len(path) > 1 {
		below := cmp.Or(position.Child(mapping, path[0]),
			&yaml.Node{Kind: yaml.MappingNode, Line: value.Line})
		set(below, path[1:], value)
		value = below
	}
	rest := without(mapping, func(key string) bool { return key == path[0] })
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: path[0], Line: value.Line}
	mapping.Content = append(rest.Content, key, value)
}

// linesBefore returns the number of lines before the text in a scalar.
func linesBefore(scalar *yaml.Node) int {
	if scalar.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return scalar.Line
	}
	return scalar.Line - 1
}

// fits returns whether a text can be parsed: with others before it, it is no larger than a file.
func (c *fileContents) fits(scalar *yaml.Node) bool {
	before := c.texts
	if c.texts += len(scalar.Value); c.texts > maxFile && before <= maxFile {
		c.faults = append(c.faults, choice.Fault{Line: scalar.Line, Problem: "with this text, the " +
			"texts with documents in this file are larger than 1 MiB: check it in parts"})
	}
	return c.texts <= maxFile
}

// treeIn returns the tree of a text in a scalar; the scalar if it has none.
func (c *fileContents) treeIn(scalar *yaml.Node) *yaml.Node {
	if !c.fits(scalar) {
		return scalar
	}
	tree, err := position.Tree([]byte(scalar.Value), maxFile)
	if err != nil || len(tree.Content) == 0 {
		return scalar
	}
	inner := position.Expanded(tree.Content[0])
	moveDown(inner, linesBefore(scalar))
	return inner
}

func moveDown(node *yaml.Node, lines int) {
	node.Line += lines
	for _, child := range node.Content {
		moveDown(child, lines)
	}
}

// namesChart returns whether an object installs our chart.
func namesChart(node *yaml.Node) bool {
	for i, child := range node.Content {
		isName := node.Kind == yaml.MappingNode && i%2 == 1 &&
			slices.Contains([]string{"chart", "name"}, node.Content[i-1].Value)
		if isName && path.Base(child.Value) == chartName || namesChart(child) {
			return true
		}
	}
	return false
}
