package kubectl

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/charts"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// chartName is the name of our chart.
const chartName = "openstack-csi"

// addWithin adds the values of our chart somewhere in an object or a file.
func (c *fileContents) addWithin(node *yaml.Node) {
	isOther := func(values *yaml.Node) bool {
		return !hasDriver(values) && position.RecognizeTree(values).What == position.OtherValues
	}
	position.ChartValues{
		Charts:  []string{chartName},
		Holders: c.holders,
		Tree:    c.treeIn,
		Are: func(values *yaml.Node, chart string) bool {
			return chart == chartName || hasDriver(values) || c.valuesBelow(values) != nil ||
				chart == "" && isOther(values)
		},
		Add: func(layers []*yaml.Node, chart string) {
			for _, values := range layers {
				if below := c.valuesBelow(values); below != nil && chart != chartName && !hasDriver(values) {
					values = below
				}
				if isOther(values) {
					other := position.RecognizeTree(values)
					c.faults = append(c.faults, choice.Fault{
						Line: values.Line, Problem: "these are " + other.What + ": " + other.Advice,
					})
					continue
				}
				c.addValues(values)
				c.addTemplates(values)
			}
		},
		Elsewhere: func(key *yaml.Node) {
			c.notes = append(c.notes, fmt.Sprintf("%s: what %s names is not checked, unless it is in this "+
				"file, or in its folder or below", c.place(key.Line), key.Value))
		},
	}.Find(node)
}

// loginPath is where values contain a clouds.yaml.
const loginPath = "credentials.clouds"

// addLogin adds why the chart refuses the clouds.yaml in values, or why the operators would.
func (c *fileContents) addLogin(values *yaml.Node) {
	credentials := position.Child(values, "credentials")
	if position.Child(credentials, "clouds") == nil {
		return
	}
	node, line, _ := below(credentials, "clouds", "")
	text, isText := position.Value(node).(string)
	if isText && text == "" {
		return
	}
	err := fmt.Errorf("%s is %s, not a text: %s", loginPath, position.Shape(node), charts.AddLogin)
	if isText {
		in := clouds.Content{Name: loginPath, CAElsewhere: true, Data: map[string][]byte{
			// The lines are those of the file.
			clouds.Key: []byte(strings.Repeat("\n", position.LinesBefore(node)%span) + text),
		}}
		tree := position.Child(position.InnerTree(node, maxFile), "clouds")
		if tree == nil || tree.Kind != yaml.MappingNode {
			in.Fix = "In values, " + charts.AddLogin
		}
		_, err = in.Login()
	}
	if err != nil {
		c.faults = append(c.faults, choice.Fault{
			Line: line, Problem: strings.TrimPrefix(err.Error(), "key "+clouds.Key+" of "),
		})
	}
}

// addTemplates notes the lines whose values a tool replaces, so that they cannot be checked.
func (c *fileContents) addTemplates(values *yaml.Node) {
	for _, child := range values.Content {
		if child.Kind == yaml.ScalarNode && position.FilledIn(child.Value) {
			c.templates[child.Line] = true
			c.notes = append(c.notes, c.place(child.Line)+": this value is not checked, because another "+
				"program fills it in")
		}
		c.addTemplates(child)
	}
}

// valuesBelow returns the values of our chart that are below a node under any name, or in a text;
// nil without any.
func (c *fileContents) valuesBelow(node *yaml.Node) *yaml.Node {
	if node == nil {
		return nil
	}
	for _, child := range node.Content {
		if child.Kind == yaml.ScalarNode && strings.Contains(child.Value, "\n") {
			child = c.treeIn(child, "")
		}
		for _, d := range drivers() {
			section := position.Child(child, strings.ToLower(d.title))
			if position.Child(section, "enabled") != nil || position.Child(section, "spec") != nil {
				return child
			}
		}
		if found := c.valuesBelow(child); found != nil {
			return found
		}
	}
	return nil
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

// treeIn returns the tree of a text in a scalar, or of the file that it names, once, in the folder
// of the file or below; the scalar if it has none.
func (c *fileContents) treeIn(scalar *yaml.Node, chart string) *yaml.Node {
	if scalar.Line == 0 { // it is another text
		scalar.Style, scalar.Line = yaml.LiteralStyle, span*len(c.names)
		c.names = append(c.names, scalar.HeadComment)
	}
	if !c.fits(scalar) {
		return scalar
	}
	tree := position.InnerTree(scalar, maxFile)
	name := scalar.Value[strings.LastIndex(scalar.Value, "=")+1:] // kustomize names a key before it
	folder := filepath.Dir(c.names[0])
	file := filepath.Join(folder, name)
	if tree.Kind != yaml.ScalarNode || c.names[0] == "-" || slices.Contains(c.names, file) {
		return tree
	}
	text, err := fs.ReadFile(os.DirFS(folder), path.Clean(name))
	if err != nil {
		return tree
	}
	text = position.Substituted(text)
	if _, err := position.Parse(file, text); err != nil && chart == chartName {
		line, problem := position.Located(err)
		c.faults = append(c.faults, choice.Fault{Line: span*len(c.names) + line, Problem: problem})
	}
	return c.treeIn(&yaml.Node{Kind: yaml.ScalarNode, Value: string(text), HeadComment: file}, chart)
}

// span is the distance between the first lines of two texts, which have fewer lines.
const span = 2 * maxFile

// place returns the name of a text and a line of it.
func (c *fileContents) place(line int) string {
	return fmt.Sprintf("%s:%d", c.names[line/span], max(1, line%span))
}
