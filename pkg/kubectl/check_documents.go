package kubectl

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// maxFile is the maximum size of a file with documents, in bytes.
const maxFile = 1 << 20

// fileContents is what of a file can be checked.
type fileContents struct {
	documents []document
	// judged are the parts that a schema is about.
	judged []judged
	// texts is the size of the texts with documents in scalars, which aliases repeat.
	texts int
	// faults are about what is around them, others about what is nothing of ours.
	faults, others []choice.Fault
	// templates are the lines of values that another program fills in.
	templates map[int]bool
	// notes say how the file was read.
	notes []string
	// holders are ConfigMaps and Secrets, names those of the file and of texts with other lines.
	holders []*position.Holder
	names   []string
}

// document is choices: an operator.yaml, or a mapping of an object or of values.
type document struct {
	kind choice.Kind
	// text is an operator.yaml, and before the number of lines before it in its file.
	text   string
	before int
	// fields are those of an object or of values; nil for an operator.yaml.
	fields *yaml.Node
	// isShared is true if they are what the values of the chart set for both drivers.
	isShared bool
}

func (d *document) parse() (*choice.Config, []choice.Fault) {
	if d.fields != nil {
		return choice.ParseSpec(d.kind, d.fields)
	}
	config, faults := choice.Parse(d.kind, d.text, flavour.Of(true))
	for i := range faults {
		faults[i].Line += d.before
	}
	return config, faults
}

// contentsOf finds what can be checked: an operator.yaml, also in a ConfigMap, ManilaDrivers and
// CinderDrivers, also in a List, and values of the chart, also for Flux and Argo CD. If there is
// nothing else, the whole file is an operator.yaml, whose parser says what is wrong with it.
func contentsOf(name string, text []byte) *fileContents {
	trees, err := position.Trees(position.Substituted(text), maxFile)
	holders, others := position.Holders(position.Objects(trees))
	found := &fileContents{templates: map[int]bool{}, names: []string{name}, holders: holders}
	for _, tree := range others {
		found.add(tree, text)
	}
	for _, h := range holders {
		if !h.IsUsed {
			found.add(h.Tree, text)
		}
	}
	switch {
	case errors.As(err, new(position.LimitError)):
		found.faults = []choice.Fault{{Line: 1, Problem: "the file " + err.Error()}}
	case len(found.documents) > 0 || len(found.faults) > 0:
	case len(found.others) > 0:
		found.faults = found.others
	case err == nil && len(trees) == 0:
		found.faults = []choice.Fault{{Line: 1, Problem: "the file is empty"}}
	default:
		found.documents = []document{{kind: kindOf(text), text: string(text)}}
	}
	return found
}

// check returns the choices in each document, and all mistakes. The schema repeats what the parser
// says about a line, but knows all fields.
func (c *fileContents) check() (configs []*choice.Config, faults []choice.Fault, err error) {
	var refused []choice.Fault // what is independent of the other mistakes of a line
	faults = c.faults
	for _, part := range c.documents {
		config, problems := part.parse()
		resources, failed := part.resourceFaults()
		configs, faults = append(configs, config), append(faults, problems...)
		refused, err = append(refused, resources...), errors.Join(err, failed)
	}
	byParser := len(faults)
	compiler, failed := newCompiler()
	err = errors.Join(err, failed)
	for _, part := range c.judged {
		var found []choice.Fault
		if err == nil {
			found, err = part.faults(compiler)
		}
		for _, f := range found {
			i := slices.IndexFunc(faults[:byParser], func(by choice.Fault) bool { return by.Line == f.Line })
			switch {
			case i < 0:
				faults = append(faults, f)
			case strings.Contains(f.Problem, "did you mean"), strings.Contains(f.Problem, `": move `),
				strings.Contains(faults[i].Problem, choice.NoSuchField):
				faults[i] = f
			}
		}
	}
	isFilledIn := func(f choice.Fault) bool {
		return c.templates[f.Line] && !strings.HasPrefix(f.Problem, "unknown field")
	}
	return configs, slices.DeleteFunc(append(faults, refused...), isFilledIn), err
}

func (c *fileContents) add(tree *yaml.Node, text []byte) {
	kind, ours := position.Child(tree, "kind"), position.Child(tree, chartName)
	isOfTool := kind == nil && ours == nil && position.NamesChart(tree, chartName)
	if kind == nil && ours == nil && !isOfTool && !hasDriver(tree) {
		ours = c.valuesBelow(tree) // under an alias
	}
	switch {
	case isOfTool:
		c.addWithin(tree)
	case kind == nil && ours != nil:
		c.addValues(ours)
		c.notes = append(c.notes, "read as values of a chart that contains "+chartName+": without such "+
			"a chart, remove this level")
	case kind == nil && isValues(tree, text):
		c.addValues(tree)
	case kind == nil:
	case kind.Value == "ConfigMap" && position.Child(position.Child(tree, "data"), choice.Key) != nil:
		if content := position.Child(position.Child(tree, "data"), choice.Key); c.fits(content) {
			c.documents = append(c.documents, document{
				kind: kindOf([]byte(content.Value)), text: content.Value,
				before: position.LinesBefore(content),
			})
		}
	default:
		c.addObject(tree, kind)
	}
}

// addObject adds an object of the API, or what it is in place of one.
func (c *fileContents) addObject(tree, kind *yaml.Node) {
	for _, d := range drivers() {
		if d.ownKind() != kind.Value {
			continue
		}
		spec := position.Child(tree, "spec")
		if spec == nil || spec.Kind != yaml.MappingNode {
			spec = &yaml.Node{Kind: yaml.MappingNode, Line: tree.Line}
		}
		c.documents = append(c.documents, document{kind: d.kind, fields: choicesIn(d.kind, spec)})
		c.judged = append(c.judged, judged{tree: tree, definition: "/$defs/" + kind.Value})
		c.faults = append(c.faults, aboutObject(d, tree)...)
		return
	}
	before, faults, wraps := len(c.judged), len(c.faults), position.NamesChart(tree, chartName)
	if c.addWithin(tree); len(c.judged) > before || len(c.faults) > faults {
		return
	}
	for _, of := range []string{"data", "stringData"} { // for valuesFrom of an object of Flux
		if values := c.valuesBelow(position.Child(tree, of)); values != nil {
			c.addValues(values)
			return
		}
	}
	isOurs := position.Child(tree, "apiVersion")
	if isOurs != nil && isOurs.Value == choice.APIVersion || strings.HasSuffix(kind.Value, "Config") {
		return // the parser of an operator.yaml reports what is wrong
	}
	problem := fmt.Sprintf("an object of kind %s is not checked, only a ManilaDriver, a "+
		"CinderDriver, values of the chart %s, or an operator.yaml of OpenShift", kind.Value, chartName)
	switch meant := position.Similar([]string{"ManilaDriver", "CinderDriver"}, kind.Value); {
	case meant != "":
		problem = fmt.Sprintf("unknown kind %q: did you mean %q?", kind.Value, meant)
	case wraps:
		problem = fmt.Sprintf("this %s contains no values: check the file with the values that it names",
			kind.Value)
	}
	c.others = append(c.others, choice.Fault{Line: kind.Line, Problem: problem})
}

func (c *fileContents) addValues(values *yaml.Node) {
	if values == nil || values.Kind != yaml.MappingNode {
		return
	}
	removeNulls(values)
	c.judged = append(c.judged, judged{tree: values})
	c.addLogin(values)
	for _, d := range drivers() {
		section := position.Child(values, strings.ToLower(d.title))
		spec, enabled := position.Child(section, "spec"), position.Child(section, "enabled")
		if spec == nil && enabled != nil && enabled.Value == "true" {
			spec = &yaml.Node{Kind: yaml.MappingNode, Line: section.Line}
		}
		if spec != nil && spec.Kind == yaml.MappingNode {
			c.documents = append(c.documents, document{kind: d.kind, fields: choicesIn(d.kind, spec)})
		}
	}
	shared := position.Without(values, func(key string) bool {
		return key != "pods" && key != "kubeletDir"
	})
	c.documents = append(c.documents, document{kind: choice.Manila, fields: shared, isShared: true})
}

// removeNulls removes the keys with which values remove a value of the chart.
func removeNulls(node *yaml.Node) {
	for i := len(node.Content) - 1; i >= 0; i-- {
		isValue := node.Kind == yaml.MappingNode && i%2 == 1
		if isValue && node.Content[i].ShortTag() == "!!null" && node.Content[i-1].Value != "" {
			node.Content = slices.Delete(node.Content, i-1, i+1)
			i--
		} else {
			removeNulls(node.Content[i])
		}
	}
}

// isValues returns whether a map without a kind is values of a chart: it has no field that only an
// operator.yaml has.
func isValues(top *yaml.Node, text []byte) bool {
	if top.Kind != yaml.MappingNode || position.Recognize(text, "").What == position.OtherValues {
		return false
	}
	for _, f := range choice.Fields("", reflect.TypeFor[choice.Document]()) {
		name := choice.FieldName(f)
		isShared := slices.Contains([]string{"csiAddons", "kubeletDir", "pods"}, name)
		if !isShared && position.Child(top, name) != nil {
			return false
		}
	}
	return true
}

// choicesIn returns the fields of a spec that an operator.yaml also has, or that are unknown.
func choicesIn(kind choice.Kind, spec *yaml.Node) *yaml.Node {
	others := map[string]bool{}
	for _, f := range choice.Fields(kind, reflect.TypeFor[api.Spec]()) {
		others[choice.FieldName(f)] = true
	}
	for _, f := range choice.Fields(kind, reflect.TypeFor[choice.Config]()) {
		delete(others, choice.FieldName(f))
	}
	return position.Without(spec, func(key string) bool { return others[key] })
}

// kindOf returns the kind of an operator.yaml, or the one that is most like it.
func kindOf(text []byte) choice.Kind {
	root, err := position.Tree(text, maxFile)
	if err != nil || len(root.Content) == 0 {
		return choice.Manila // the parser reports errors
	}
	kind := position.Child(root.Content[0], "kind")
	if kind != nil && strings.Contains(strings.ToLower(kind.Value), "cinder") {
		return choice.Cinder
	}
	return choice.Manila
}
