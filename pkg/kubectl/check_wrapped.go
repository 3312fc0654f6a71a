package kubectl

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

const chartName = "openstack-csi"

// addWithin adds the values of our chart somewhere in an object or a file.
func (c *fileContents) addWithin(node *yaml.Node, namesChart bool) {
	position.ChartValues{Fits: c.fits, Add: c.addValues, Are: func(values *yaml.Node) bool {
		return namesChart || hasDriver(values)
	}}.Find(node)
}

// hasDriver returns whether values configure a driver.
func hasDriver(values *yaml.Node) bool {
	return slices.ContainsFunc(drivers(), func(d driver) bool {
		return position.Child(values, strings.ToLower(d.title)) != nil
	})
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
