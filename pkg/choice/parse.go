package choice

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// Fault is a mistake in the choices.
type Fault struct {
	// Line is the line of the mistake, from 1.
	Line int
	// Problem starts with the path of the field, if there is one.
	Problem string
}

const (
	// maxText is the maximum size of a text, in bytes.
	maxText = 64 << 10
	// maxBoth is the size in bytes of a text whose values are checked although its shape is wrong.
	maxBoth = 4 << 10
	// maxFaults is the number of faults that are reported.
	maxFaults = 100
	// maxProblem is the maximum length of a problem. It may contain a value, or list all containers.
	maxProblem = 400
)

// Parse decodes and validates the choices of a kind in a flavour. It returns either the choices, or
// the first faults in the order of their lines.
func Parse(kind Kind, text string, f flavour.Flavour) (*Config, []Fault) {
	if err := position.Fits(text, maxText); err != nil {
		return nil, []Fault{{1, "the text " + err.Error()}}
	}
	config, err := parse(kind, text, f)
	faults := faultsIn(err)
	if line, contains := position.Strange(text); err != nil && line > 0 {
		faults = append(faults, Fault{line, "the line " + contains})
	}
	return config, faults
}

// ParseSpec is Parse for a mapping with the choices in a text for kubectl or Helm, without aliases.
// Lines are those of the text.
func ParseSpec(kind Kind, choices *yaml.Node) (*Config, []Fault) {
	root := *choices
	root.Content = nil
	for _, text := range []string{"apiVersion", APIVersion, "kind", string(kind)} {
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: text})
	}
	root.Content = append(root.Content, choices.Content...)
	document, err := position.Of(Key, &root)
	if err != nil {
		return nil, faultsIn(err)
	}
	checker := &checker{kind: kind, inSpec: true, patterns: map[string]*regexp.Regexp{}}
	checker.check(&root, reflect.TypeFor[Document](), "", nil)
	config, err := checker.decide(document, flavour.Of(false))
	return config, faultsIn(err)
}

// faultsIn returns the first faults of an error, in the order of their lines.
func faultsIn(err error) (faults []Fault) {
	sorted := position.Sorted(err)
	for _, one := range sorted[:min(len(sorted), maxFaults)] {
		line, problem := position.Located(one)
		faults = append(faults, Fault{line, shortened(problem)})
	}
	return faults
}

// Located returns faults about fields with the lines of these fields in a text.
func Located(text string, faults []Fault) (located []Fault) {
	document, err := position.Parse(Key, []byte(text))
	for _, f := range faults {
		f.Line = 1
		at, problem, _ := strings.Cut(f.Problem, ": ")
		if strings.HasPrefix(problem, "Required value") {
			at = at[:max(strings.LastIndexAny(at, ".["), 0)]
		}
		if err == nil {
			f.Line = document.At(at).Line
		}
		located = append(located, Fault{f.Line, shortened(f.Problem)})
	}
	return located
}

// shortened replaces characters that hide text, which can be in the key of a map.
func shortened(text string) string {
	text = strings.Map(func(r rune) rune {
		if r != '\n' && unprintable(r) {
			return '?'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxProblem {
		return string(runes[:maxProblem]) + "..."
	}
	return text
}

func parse(kind Kind, text string, f flavour.Flavour) (*Config, error) {
	document, err := position.Parse(Key, []byte(text))
	if err != nil {
		return nil, unreadable(kind, []byte(text), err)
	}
	checker := &checker{
		kind: kind, inSpec: !f.HasConfig(), text: []byte(text), patterns: map[string]*regexp.Regexp{},
	}
	checker.document(&document.Root)
	return checker.decide(document, f)
}

// decide returns the choices in a document that is checked, or its faults.
func (c *checker) decide(document *position.Document, f flavour.Flavour) (*Config, error) {
	if len(c.faults) > 0 && (len(c.text) > maxBoth || c.isOther) {
		return nil, errors.Join(c.faults...)
	}
	content := &Document{}
	if err := document.DecodeStrictly(content); err != nil && len(c.faults) == 0 {
		return nil, document.Errorf("", "%w", err)
	}
	errs := append(validate(c.kind, content), content.validatePods(f)...)
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) })
	invalid := document.ValidationError(errs[:min(len(errs), maxFaults)])
	faults := slices.Concat(c.faults, c.invalid, c.others(invalid))
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &content.Config, nil
}

// others returns the errors about lines that contain no fault. What has the wrong shape is not
// decoded, so that its value would be reported as missing.
func (c *checker) others(err error) (others []error) {
	lines := map[int]bool{}
	for _, fault := range slices.Concat(c.faults, c.invalid) {
		if located, ok := errors.AsType[*position.Error](fault); ok {
			lines[located.Line] = true
		}
	}
	for _, one := range position.Sorted(err) {
		located, ok := errors.AsType[*position.Error](one)
		about, isAbout := errors.AsType[*field.Error](one)
		absent := isAbout && (about.BadValue == "" || about.Type == field.ErrorTypeRequired)
		if (len(c.faults) == 0 || !absent) && (!ok || !lines[located.Line]) {
			others = append(others, one)
		}
	}
	return others
}

// checker compares a text with the type Document. A JSON decoder would stop at the first value of a
// wrong type, and name neither its line nor its index.
type checker struct {
	kind   Kind
	inSpec bool
	text   []byte
	// faults are about the shape of the document, invalid are about texts that it decodes.
	faults, invalid []error
	// isOther says that the text is another object.
	isOther bool
	// patterns are those of the rules that have been checked.
	patterns map[string]*regexp.Regexp
}

func (c *checker) fault(line int, at *field.Path, format string, args ...any) {
	if len(c.faults) == maxFaults {
		return
	}
	problem := fmt.Sprintf(format, args...)
	if at != nil {
		problem = fmt.Sprintf("%s: %s", at, problem)
	}
	place := position.Position{File: Key, Line: line}
	c.faults = append(c.faults, position.ErrorAt(place, "%s", problem))
}

func (c *checker) document(root *yaml.Node) {
	if root.Kind == 0 {
		c.fault(1, nil, "the text is empty: remove the key, or set apiVersion and kind")
		return
	}
	top := root.Content[0]
	other := position.Recognize(c.text, position.ConfigMap)
	if other.What == "" && top.Kind != yaml.MappingNode {
		other = position.Other{What: position.Shape(top), Line: top.Line}
	}
	if other.What != "" && other.What != position.OperatorYML {
		c.isOther = true
		c.fault(max(other.Line, 1), nil, "%s", notChoices(c.kind, other))
		return
	}
	c.check(top, reflect.TypeFor[Document](), "", nil)
}

// check checks that a node fits a type, and a field's tag if there is one.
func (c *checker) check(node *yaml.Node, t reflect.Type, tag reflect.StructTag, at *field.Path) {
	switch {
	case len(c.faults) == maxFaults:
	case node.Kind == yaml.AliasNode:
		c.fault(node.Line, at, "an alias is not supported: repeat the value")
	case isNull(node) && at != nil:
		c.fault(node.Line, at, "the value is %s: set it, or remove the field", position.Shape(node))
	case t.Kind() == reflect.Pointer:
		c.check(node, t.Elem(), tag, at)
	case t == reflect.TypeFor[resource.Quantity]():
		c.checkQuantity(node, at)
	case t.Kind() == reflect.Struct:
		c.checkStruct(node, t, at)
	case t.Kind() == reflect.Map &&
		c.is(node, yaml.MappingNode, "a map of texts, as in {name: value}", at):
		c.checkLength(node, len(node.Content)/2, at)
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			c.check(key, t.Key(), "", at.Key(key.Value))
			c.check(node.Content[i+1], t.Elem(), tag, at.Key(key.Value))
		}
	case t.Kind() == reflect.Slice && c.is(node, yaml.SequenceNode, "a list, as in [a, b]", at):
		c.checkLength(node, len(node.Content), at)
		for i, item := range node.Content {
			c.check(item, t.Elem(), tag, at.Index(i))
		}
	case t.Kind() == reflect.String && c.is(node, yaml.ScalarNode, "a text", at):
		c.checkText(node, tag, at)
	case t.Kind() == reflect.Bool && node.ShortTag() != "!!bool":
		c.fault(node.Line, at, "must be true or false without quotation marks, not %s",
			position.Shape(node))
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int32, t.Kind() == reflect.Int64:
		c.checkNumber(node, t, tag, at)
	}
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

func (c *checker) is(node *yaml.Node, kind yaml.Kind, name string, at *field.Path) bool {
	if node.Kind != kind {
		c.fault(node.Line, at, "must be %s, not %s", name, position.Shape(node))
	}
	return node.Kind == kind
}

func (c *checker) checkLength(node *yaml.Node, length int, at *field.Path) {
	if length > MaxItems {
		c.fault(node.Line, at, "Too many: %d: must have at most %d items", length, MaxItems)
	}
}

func (c *checker) checkStruct(node *yaml.Node, t reflect.Type, at *field.Path) {
	if node.Kind != yaml.MappingNode {
		c.is(node, yaml.MappingNode, "a map of fields ("+strings.Join(names(c.kind, t), ", ")+")", at)
		return
	}
	known, given := Fields(c.kind, t), map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		given[key.Value] = true
		found := slices.IndexFunc(known, func(f reflect.StructField) bool {
			return FieldName(f) == key.Value
		})
		if len(c.faults) == maxFaults {
			return
		}
		if found < 0 {
			c.fault(key.Line, nil, "unknown field %q%s", at.Child(key.Value),
				cmp.Or(around(key, node.Content[i+1], known), c.ofOtherKind(t, key.Value),
					suggestion(c.kind, t, key.Value), NoSuchField+
						strings.Join(names(c.kind, t), ", ")))
			continue
		}
		c.check(node.Content[i+1], known[found].Type, known[found].Tag, at.Child(key.Value))
	}
	for _, f := range known {
		if IsRequired(c.kind, t, f) && !given[FieldName(f)] {
			advice := map[string]string{
				"apiVersion": "write " + APIVersion, "kind": "write " + string(c.kind),
			}[FieldName(f)]
			c.fault(node.Line, nil, "%v", field.Required(at.Child(FieldName(f)), advice))
		}
	}
}
