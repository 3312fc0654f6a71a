// Package patch applies strategic merge patches and JSON 6902 patches to Kubernetes objects in
// YAML, and writes the result in a canonical form. Only the asset generator calls it, so that no
// operator links kyaml.
package patch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/kustomize/kyaml/yaml/merge2"
)

// Merge applies a strategic merge patch to an object. The patch may omit apiVersion and kind. Lists
// merge by the keys that Kubernetes declares for the object's kind, with new elements at the end. A
// list without such a key, or of a kind that Kubernetes does not know, is replaced.
func Merge(object, patch []byte) ([]byte, error) {
	target, err := kyaml.Parse(string(object))
	if err != nil {
		return nil, fmt.Errorf("parsing object: %w", err)
	}
	change, err := kyaml.Parse(string(patch))
	if err != nil {
		return nil, fmt.Errorf("parsing patch: %w", err)
	}
	if err := adoptType(target, change); err != nil {
		return nil, err
	}
	options := kyaml.MergeOptions{ListIncreaseDirection: kyaml.MergeOptionsListAppend}
	merged, err := merge2.Merge(change, target, options)
	if err != nil {
		return nil, fmt.Errorf("merging: %w", err)
	}
	text, err := merged.String()
	if err != nil {
		return nil, fmt.Errorf("writing merged object: %w", err)
	}
	return Canonical([]byte(text))
}

// adoptType sets the patch's apiVersion and kind to the object's: kyaml looks up list keys by them.
func adoptType(target, change *kyaml.RNode) error {
	if change.YNode().Kind != kyaml.MappingNode {
		return fmt.Errorf("a strategic merge patch is a mapping")
	}
	if kind := change.GetKind(); kind != "" && kind != target.GetKind() {
		return fmt.Errorf("patch is for kind %q, object is a %q", kind, target.GetKind())
	}
	if version := change.GetApiVersion(); version != "" && version != target.GetApiVersion() {
		return fmt.Errorf("patch is for apiVersion %q, object has %q", version, target.GetApiVersion())
	}
	change.SetKind(target.GetKind())
	change.SetApiVersion(target.GetApiVersion())
	return nil
}

// JSON6902 applies a JSON 6902 patch in YAML or JSON to an object. Its paths are relative to the
// JSON pointer at; an empty pointer means the whole object.
func JSON6902(object, patch []byte, at string) ([]byte, error) {
	operations, err := rebase(patch, at)
	if err != nil {
		return nil, err
	}
	document, err := toJSON(object)
	if err != nil {
		return nil, fmt.Errorf("parsing object: %w", err)
	}
	decoded, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return nil, fmt.Errorf("decoding patch: %w", err)
	}
	patched, err := decoded.Apply(document)
	if err != nil {
		return nil, fmt.Errorf("applying patch: %w", err)
	}
	return Canonical(patched)
}

// Between returns the strategic merge patch that changes one object into another. Both have the
// type of kind, such as appsv1.Deployment{}.
func Between(before, after []byte, kind any) ([]byte, error) {
	from, err := toJSON(before)
	if err != nil {
		return nil, fmt.Errorf("parsing object: %w", err)
	}
	to, err := toJSON(after)
	if err != nil {
		return nil, fmt.Errorf("parsing changed object: %w", err)
	}
	made, err := strategicpatch.CreateTwoWayMergePatch(from, to, kind)
	if err != nil {
		return nil, fmt.Errorf("comparing objects: %w", err)
	}
	return Canonical(made)
}

// operation is one step of a JSON 6902 patch. Value stays raw, because null is a value.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  *string         `json:"from,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// rebase returns the patch as JSON, with every path below at.
func rebase(patch []byte, at string) ([]byte, error) {
	document, err := toJSON(patch)
	if err != nil {
		return nil, fmt.Errorf("decoding patch: %w", err)
	}
	var operations []operation
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&operations); err != nil {
		return nil, fmt.Errorf("decoding patch: %w", err)
	}
	if len(operations) == 0 {
		return nil, fmt.Errorf("patch has no operations")
	}
	for i := range operations {
		operations[i].Path = at + operations[i].Path
		if from := operations[i].From; from != nil {
			rebased := at + *from
			operations[i].From = &rebased
		}
	}
	return json.Marshal(operations)
}

// toJSON converts YAML by the same rules as Canonical.
func toJSON(text []byte) ([]byte, error) {
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

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
