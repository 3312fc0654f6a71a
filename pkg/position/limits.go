package position

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

const (
	// maxNodes is the maximum number of YAML nodes, with each alias replaced by its content.
	maxNodes = 20_000
	// maxDocuments is how many documents with so many nodes a text may contain.
	maxDocuments = 10
	// maxDepth is the maximum number of nodes around a node.
	maxDepth = 100
)

// LimitError is a text that would cost too much. Its text follows the name of the text.
type LimitError string

// Error implements error.
func (l LimitError) Error() string { return string(l) }

// Fits returns a LimitError if a text has more than limit bytes. Decoding takes many times the
// memory of a text, and people other than the administrator of this cluster may write it.
func Fits[T ~string | ~[]byte](text T, limit int) error {
	if len(text) > limit {
		return LimitError(fmt.Sprintf("is larger than %d KiB", limit>>10))
	}
	return nil
}

// Tree parses the first YAML document of a text with at most limit bytes. The decoder of the tree
// costs little unless a mapping repeats keys: see Repeated. Errors of another type than LimitError
// may quote the text. An empty text has a node with the kind 0.
func Tree(text []byte, limit int) (*yaml.Node, error) {
	if err := Fits(text, limit); err != nil {
		return nil, err
	}
	root := &yaml.Node{}
	err := yaml.NewDecoder(bytes.NewReader(text)).Decode(root)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return root, limited(root)
}

// Trees parses all YAML documents of a text with at most limit bytes, except empty ones.
func Trees(text []byte, limit int) (all []*yaml.Node, err error) {
	if err := Fits(text, limit); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for count := 0; ; {
		root := &yaml.Node{}
		switch err := decoder.Decode(root); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		if err := limited(root); err != nil {
			return nil, err
		}
		if count += nodes(root, maxNodes, 0); count > maxDocuments*maxNodes {
			return nil, LimitError("has too many documents, entries or aliases")
		}
		if root.Content[0].ShortTag() != "!!null" {
			all = append(all, root.Content[0])
		}
	}
}

// Second returns the line of the second YAML document of a text, 0 if there is none or it is empty.
func Second(text []byte) int {
	var first, second yaml.Node
	if !bytes.Contains(text, []byte("---")) {
		return 0
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if decoder.Decode(&first) != nil || decoder.Decode(&second) != nil ||
		second.Content[0].ShortTag() == "!!null" {
		return 0
	}
	return second.Content[0].Line
}

// limited returns a LimitError for a tree that would cost too much to decode.
func limited(root *yaml.Node) error {
	if nodes(root, maxNodes, 0) > maxNodes {
		return LimitError("has too many entries or aliases, or too many levels")
	}
	return nil
}

// nodes counts the nodes below a node, with each alias replaced by its content. It returns more
// than limit if there are more, or if an alias contains itself.
func nodes(node *yaml.Node, limit, depth int) int {
	node = Resolved(node)
	count := 1
	for _, child := range node.Content {
		if count > limit || depth > maxDepth {
			return limit + 1
		}
		count += nodes(child, limit-count, depth+1)
	}
	return count
}

// Resolved returns the node that an alias stands for, and other nodes as they are.
func Resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// Repeated returns the first key that a mapping repeats, and a predicate about it; nil for none.
// The decoder makes an error of each pair of equal keys, and n keys are n²/2 pairs.
func Repeated(mapping *yaml.Node) (key *yaml.Node, problem string) {
	type name struct {
		kind  yaml.Kind
		value string
	}
	found := map[name]*yaml.Node{}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key := mapping.Content[i]
		own := name{key.Kind, key.Value}
		earlier := found[own]
		found[own] = key
		if earlier == nil {
			continue
		}
		problem := fmt.Sprintf("repeats line %d", earlier.Line)
		if earlier == mapping.Content[0] && key.Column == 1 {
			problem += ", as if two files were joined"
		}
		if problem += ": remove one of the two"; mapping.Content[i+1].Kind != yaml.ScalarNode {
			problem += ", with what is below it"
		}
		return key, problem
	}
	return nil, ""
}

// checkKeys returns an error for the first key below a node that is a map or that repeats another.
func (d *Document) checkKeys(node *yaml.Node) error {
	if node.Kind == yaml.MappingNode {
		for i := 0; i < len(node.Content); i += 2 {
			if node.Content[i].Kind == yaml.MappingNode {
				return ErrorAt(Position{d.File, node.Line}, "a key must be a text. A text that begins "+
					"with { needs quotation marks, and a template must be filled in first")
			}
		}
		if key, problem := Repeated(node); key != nil {
			return ErrorAt(Position{d.File, key.Line}, "the key %q %s", key.Value, problem)
		}
	}
	for _, child := range node.Content {
		if err := d.checkKeys(child); err != nil {
			return err
		}
	}
	return nil
}
