package openstack

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"
)

// Limits of a clouds.yaml. On HyperShift the administrator of the guest cluster may write it.
const (
	// maxClouds is the maximum size of a clouds.yaml, in bytes. Decoding takes many times the memory.
	maxClouds = 128 << 10
	// maxExplained and maxLines limit the bytes and lines of a text whose invalid line is searched,
	// because the search parses the text once for each line.
	maxExplained = 16 << 10
	maxLines     = 200
	// maxListed is the number of names that a message lists.
	maxListed = 10
	// maxNodes is the maximum number of YAML nodes, with each alias replaced by its content.
	maxNodes = 20_000
)

// key is a key of a clouds.yaml that messages may name.
type key struct {
	name string
	line int
	// value is nil for a key that does not exist.
	value *yaml.Node
}

// empty is true if the value is null or an empty text.
func (k key) empty() bool {
	return k.value.Kind == yaml.ScalarNode && (k.value.Value == "" || k.value.ShortTag() == "!!null")
}

// String returns the name and the line, for messages.
func (k key) String() string {
	if k.line == 0 {
		return printableName(k.name)
	}
	return fmt.Sprintf("%s (line %d)", printableName(k.name), k.line)
}

// decode returns the entries of a clouds.yaml and its tree. The text of an error follows the name
// of its source. It contains lines, and no values.
func decode(text []byte) (map[string]clientconfig.Cloud, *yaml.Node, error) {
	if len(text) > maxClouds {
		return nil, nil, fmt.Errorf("is larger than %d KiB", maxClouds>>10)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return nil, nil, fmt.Errorf("is not valid YAML%s. Check the indentation and the quotation marks",
			firstInvalidLine(text))
	}
	if node.IsZero() || node.Content[0].Tag == "!!null" {
		return nil, nil, errors.New("is empty")
	}
	if nodes(node.Content[0], maxNodes, 0) > maxNodes {
		return nil, nil, errors.New("has too many entries or aliases")
	}
	var file clientconfig.Clouds
	if err := node.Decode(&file); err != nil {
		return nil, nil, fmt.Errorf("does not have the format of clouds.yaml%s", mismatchedLines(err))
	}
	return file.Clouds, node.Content[0], nil
}

// nodes counts the nodes below a node, with each alias replaced by its content. It returns more
// than limit if there are more, or if an alias contains itself.
func nodes(node *yaml.Node, limit, depth int) int {
	const maxDepth = 1000
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	count := 1
	for _, child := range node.Content {
		if count > limit || depth > maxDepth {
			return limit + 1
		}
		count += nodes(child, limit-count, depth+1)
	}
	return count
}

// mapping returns the keys of a mapping, with merged mappings at the end. It returns none for other
// nodes.
func mapping(node *yaml.Node) (keys []key) {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	var merged []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], resolved(node.Content[i+1])
		switch {
		case name.ShortTag() != "!!merge":
			keys = append(keys, key{resolved(name).Value, name.Line, value})
		case value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		default:
			merged = append(merged, value)
		}
	}
	for _, node := range merged {
		keys = append(keys, mapping(resolved(node))...)
	}
	return keys
}

func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// find returns the key with a name, without line and value if there is none.
func find(keys []key, name string) key {
	for _, k := range keys {
		if k.name == name {
			return k
		}
	}
	return key{name: name}
}

// list returns at most maxListed names with their lines.
func list(keys []key) string {
	var shown []string
	for _, k := range keys[:min(len(keys), maxListed)] {
		shown = append(shown, k.String())
	}
	if more := len(keys) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), more)
	}
	return strings.Join(shown, ", ")
}

// identifier matches the names of keys and entries that messages may repeat. Other text may be
// secret.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// printableName returns the name for messages, or a placeholder if the text may be secret.
func printableName(name string) string {
	const limit = 63
	if len(name) <= limit && identifier.MatchString(name) {
		return name
	}
	return "(a name that is not printed)"
}

// firstInvalidLine finds the first line that makes the text invalid YAML. The parser's errors name
// the first line of the surrounding mapping, which is usually line 1.
func firstInvalidLine(text []byte) string {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(text) > maxExplained || len(lines) > maxLines {
		return ""
	}
	for last := len(lines) - 1; last >= 0; last-- {
		var ignored yaml.Node
		if yaml.Unmarshal(bytes.Join(lines[:last], nil), &ignored) == nil {
			return fmt.Sprintf(" (line %d)", last+1)
		}
	}
	return ""
}

var mismatchedLine = regexp.MustCompile(`^line (\d+): `)

// mismatchedLines returns the line numbers of a type error without the rest, which quotes the text.
func mismatchedLines(err error) string {
	mismatch, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return ""
	}
	var lines []string
	for _, problem := range mismatch.Errors {
		m := mismatchedLine.FindStringSubmatch(problem)
		if m != nil && !slices.Contains(lines, m[1]) && len(lines) < maxListed {
			lines = append(lines, m[1])
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return " (line " + strings.Join(lines, ", ") + ")"
}
