package kubectl

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.yaml.in/yaml/v3"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/openstack-csi/csi-operator/assets"
	"github.com/openstack-csi/csi-operator/pkg/charts"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// judged is a part of a file that a definition in the schema of the chart is about. The schema of
// the API contains the same rules.
type judged struct {
	tree       *yaml.Node
	definition string
	// places are the paths of the maps that may have a field, by its name.
	places map[string][][]string
}

// maxRefused is the number of values, and of fields in one map, about which the schema is reported.
const maxRefused = 100

// schemaURL names the schema. Nothing fetches it.
const schemaURL = "values.json"

// newCompiler returns the validator of Helm with the schema of the chart, and a definition for each
// kind of object whose spec is in it.
func newCompiler() (*jsonschema.Compiler, error) {
	compiler := jsonschema.NewCompiler()
	var schema map[string]any
	err := json.Unmarshal(assets.ValuesSchema(), &schema)
	definitions, _ := schema["$defs"].(map[string]any)
	for _, d := range drivers() {
		field, kind := map[string]any{}, d.ownKind()
		definitions[kind] = map[string]any{"additionalProperties": false, "properties": map[string]any{
			"apiVersion": field, "kind": field, "metadata": field, "status": field, "spec": map[string]any{
				"if":   map[string]any{"type": "null"},
				"else": map[string]any{"$ref": "#/$defs/" + strings.ToLower(kind) + "s"},
			},
		}}
	}
	return compiler, errors.Join(err, compiler.AddResource(schemaURL, schema))
}

// faults returns what the schema refuses in a part of a file.
func (j *judged) faults(compiler *jsonschema.Compiler) (found []choice.Fault, err error) {
	if _, err := position.Of(choice.Key, j.tree); err != nil {
		line, problem := position.Located(err)
		return []choice.Fault{{Line: line, Problem: problem}}, nil
	}
	schema, err := compiler.Compile(schemaURL + "#" + j.definition)
	if err != nil {
		return nil, err
	}
	if refused, ok := errors.AsType[*jsonschema.ValidationError](
		schema.Validate(position.Value(j.tree))); ok {
		j.places = map[string][][]string{}
		j.addPlaces(schema, nil)
		all := leaves(refused)
		for _, one := range all[:min(len(all), maxRefused)] {
			if schema, err = compiler.Compile(one.SchemaURL); err != nil {
				return nil, err
			}
			found = append(found, j.faultsOf(one, schema)...)
		}
	}
	return found, nil
}

// leaves returns the errors of which others consist. Of alternatives the deepest counts.
func leaves(refused *jsonschema.ValidationError) (found []*jsonschema.ValidationError) {
	if _, isKey := refused.ErrorKind.(*kind.PropertyNames); isKey || len(refused.Causes) == 0 {
		return []*jsonschema.ValidationError{refused}
	}
	for _, cause := range refused.Causes {
		found = append(found, leaves(cause)...)
	}
	if _, isChoice := refused.ErrorKind.(*kind.AnyOf); isChoice {
		deepest := slices.MaxFunc(found, func(a, b *jsonschema.ValidationError) int {
			return len(a.InstanceLocation) - len(b.InstanceLocation)
		})
		return []*jsonschema.ValidationError{deepest}
	}
	return found
}

func (j *judged) faultsOf(
	refused *jsonschema.ValidationError, schema *jsonschema.Schema,
) (found []choice.Fault) {
	node, path := j.tree, ""
	line := node.Line
	for _, step := range refused.InstanceLocation {
		node, line, path = below(node, step, path)
	}
	fault := func(line int, path, format string, args ...any) {
		problem := fmt.Sprintf(format, args...)
		if path != "" {
			problem = path + ": " + problem
		}
		found = append(found, choice.Fault{Line: line, Problem: problem})
	}
	switch k := refused.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		known := slices.Sorted(maps.Keys(schema.Properties))
		for _, name := range k.Properties[:min(len(k.Properties), maxRefused)] {
			_, line, path := below(node, name, path)
			fault(line, "", "unknown field %q%s", path,
				j.adviceFor(node, refused.InstanceLocation, name, known))
		}
	case *kind.Type:
		fault(line, path, "must be %s, not %s", wanted(k, schema), position.Shape(node))
	case *kind.Enum:
		fault(line, path, "Unsupported value: %q: supported values: %s", node.Value, quoted(k.Want))
	case *kind.Pattern:
		if what := position.Placeholder(node.Value); what != "" {
			fault(line, path, "it is %s: replace it", what)
		} else { // values such as URLs of proxies may be secret
			fault(line, path, "Invalid value: %s", cmp.Or(schema.Comment, "it does not match "+k.Want))
		}
	case *kind.Minimum:
		fault(line, path, "must be at least %s", k.Want.RatString())
	case *kind.Maximum:
		fault(line, path, "must be at most %s", k.Want.RatString())
	case *kind.MaxLength:
		fault(line, path, "must have at most %d characters", k.Want)
	case *kind.UniqueItems:
		fault(line, path, "use each value once")
	case *kind.PropertyNames:
		_, line, _ := below(node, k.Property, path)
		fault(line, path, "the key %q is not allowed here", k.Property)
	case *kind.FalseSchema:
		fault(line, path, "remove it: it is not allowed here")
	case *kind.Required:
		fault(line, path, "set %s", strings.Join(k.Missing, ", "))
	default:
		fault(line, path, "%s", k.LocalizedString(message.NewPrinter(language.English)))
	}
	return found
}

// wanted says which type a value must have, and which fields a map.
func wanted(k *kind.Type, schema *jsonschema.Schema) string {
	text := typesOf(k.Want)
	if names := slices.Sorted(maps.Keys(schema.Properties)); len(names) > 0 {
		text += " (" + strings.Join(names, ", ") + ")"
	}
	if slices.Contains(k.Want, "string") {
		text += " in quotation marks"
	}
	return text
}

// below returns the value of a key or an index, its line and its path.
func below(node *yaml.Node, step, path string) (value *yaml.Node, line int, at string) {
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if position.Key(node.Content[i]) == step {
			return node.Content[i+1], node.Content[i].Line,
				strings.TrimPrefix(path+"."+node.Content[i].Value, ".")
		}
	}
	i, err := strconv.Atoi(step)
	if err != nil || node.Kind != yaml.SequenceNode || i >= len(node.Content) {
		return node, node.Line, path
	}
	return node.Content[i], node.Content[i].Line, fmt.Sprintf("%s[%d]", path, i)
}

// adviceFor says what to do about a key that the mapping at a path may not have.
func (j *judged) adviceFor(mapping *yaml.Node, at []string, name string, known []string) string {
	for i := 0; mapping.Kind == yaml.MappingNode && i+1 < len(mapping.Content); i += 2 {
		if key := mapping.Content[i]; position.Key(key) == name && key.Value != name {
			return fmt.Sprintf(": write %q in quotation marks, because YAML reads it as %s", key.Value, name)
		} else if key.Value == name && slices.Contains(known, "monitoring") { // values of the chart
			alone := &yaml.Node{Kind: yaml.MappingNode, Content: mapping.Content[i : i+2]}
			if other := position.RecognizeTree(alone); other.What == position.OtherValues {
				return ": it is one of " + other.What + ". " + other.Advice
			}
		}
	}
	isSpelled := func(known string) bool { return position.IsSpelling(known, name) }
	right, meant := j.nearest(name, at), position.Similar(known, name)
	if i := slices.IndexFunc(known, isSpelled); i >= 0 && j.places[name] == nil {
		right, meant = nil, known[i]
	}
	value, _, _ := below(mapping, name, "")
	switch moves := j.moves(value, at); {
	case len(right) > 0:
		if right[0] == loginPath {
			right[0] += " as a text: " + charts.AddLogin
		}
		return ": move it to " + strings.Join(right, " or ")
	case meant != "":
		return fmt.Sprintf(": did you mean %q?", meant)
	case len(moves) > 0:
		return ": move " + strings.Join(moves, ", ")
	case name == "allowVolumeExpansion":
		return ": remove it. Volumes can always grow"
	case name == "deletionPolicy":
		return ": for volumes set reclaimPolicy. The operator keeps the deletionPolicy of a " +
			"VolumeSnapshotClass: set it there"
	}
	return choice.NoSuchField + strings.Join(known, ", ")
}

func typesOf(wanted []string) string {
	names := map[string]string{
		"object": "a map of fields", "array": "a list", "string": "a text", "boolean": "true or false",
		"integer": "a number", "number": "a number",
	}
	var all []string
	for _, one := range wanted {
		all = append(all, names[one])
	}
	return strings.Join(all, " or ")
}

func quoted(values []any) string {
	var all []string
	for _, one := range values {
		all = append(all, fmt.Sprintf("%q", one))
	}
	return strings.Join(all, ", ")
}

// aboutObject returns what is wrong around the spec of an object.
func aboutObject(d driver, object *yaml.Node) (found []choice.Fault) {
	add := func(node *yaml.Node, format string, args ...any) {
		found = append(found, choice.Fault{Line: node.Line, Problem: fmt.Sprintf(format, args...)})
	}
	version := flavour.Of(false).Object(d.ownKind()).GroupVersion().String()
	if given := position.Child(object, "apiVersion"); given == nil || given.Value != version {
		add(cmp.Or(given, object), "apiVersion: write %s", version)
	}
	metadata := position.Child(object, "metadata")
	if name := position.Child(metadata, "name"); name == nil || name.Value != cmp.Or(d.own, d.name) {
		add(cmp.Or(name, metadata, object), "metadata.name: write %s", cmp.Or(d.own, d.name))
	}
	return found
}
