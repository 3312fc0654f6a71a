package position

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Shape returns what a value is, for messages, without any part of it.
func Shape(node *yaml.Node) string {
	node = Resolved(node)
	quoted := node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
	switch {
	case node.Kind == yaml.MappingNode && isReference(node):
		return "a reference to another object, which nothing resolves"
	case node.Kind == yaml.MappingNode:
		return "a map"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.ShortTag() == "!!null" && node.Value != "":
		return "null"
	case node.Value == "":
		return "empty"
	case node.ShortTag() == "!!bool":
		return "a switch (true or false)"
	case node.ShortTag() == "!!int":
		return "a number"
	case node.ShortTag() == "!!float":
		return "a number with a fraction"
	case node.ShortTag() == "!!timestamp":
		return "a date"
	case quoted:
		return "a text in quotation marks"
	case Placeholder(node.Value) != "":
		return Placeholder(node.Value)
	case SmartQuoted(node.Value):
		return "a text in quotation marks of a word processor"
	case strings.HasPrefix(node.Value, "/"):
		return "a path"
	case slices.Contains([]string{"yes", "no", "on", "off", "y", "n"}, strings.ToLower(node.Value)):
		return "the text " + strings.ToLower(node.Value)
	}
	return "a text"
}

// SmartQuoted returns true for a text that begins with a quotation mark that is none for YAML.
func SmartQuoted(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return unicode.In(first, unicode.Pi, unicode.Pf)
}

// isReference returns true for a map with which pods and programs refer to a value elsewhere.
func isReference(mapping *yaml.Node) bool {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if slices.Contains([]string{
			"valueFrom", "secretKeyRef", "secretRef", "$ref", "Ref", "fromSecret", "existingSecret",
		}, mapping.Content[i].Value) {
			return true
		}
	}
	return false
}
