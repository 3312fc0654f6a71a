package patch

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Canonical returns a YAML or JSON object in the form of generated files: block style, sorted keys,
// expanded merge keys, no comments. It quotes text with a placeholder, so that every value is text.
func Canonical(object []byte) ([]byte, error) {
	var value map[string]any
	if err := yaml.Unmarshal(object, &value); err != nil {
		return nil, fmt.Errorf("parsing object: %w", err)
	}
	if value == nil {
		return nil, fmt.Errorf("parsing object: the file is empty")
	}
	var node yaml.Node
	if err := node.Encode(value); err != nil {
		return nil, fmt.Errorf("encoding object: %w", err)
	}
	quotePlaceholders(&node)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(&node); err != nil {
		return nil, fmt.Errorf("writing object: %w", err)
	}
	return out.Bytes(), nil
}

func quotePlaceholders(node *yaml.Node) {
	isText := node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str"
	if isText && strings.Contains(node.Value, "${") {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		quotePlaceholders(child)
	}
}
