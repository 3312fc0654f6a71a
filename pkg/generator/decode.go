package generator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"go.yaml.in/yaml/v3"
)

// manifest is where a decoded file says what, for errors about its content.
type manifest struct {
	file string
	root *yaml.Node
}

// decode reads a manifest strictly into a struct.
func decode(fsys fs.FS, file string, into any) (*manifest, error) {
	text, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil, fmt.Errorf("reading manifest: %w", err)
	}
	if err := oneDocument(file, text); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return nil, locateYAML(file, err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, locateYAML(file, err)
	}
	return &manifest{file: file, root: &root}, nil
}

// at returns the position of the value at a path of keys and indexes, or of the nearest value above it.
func (m *manifest) at(steps ...any) Position {
	node := m.root
	if len(node.Content) == 1 {
		node = node.Content[0]
	}
	for _, step := range steps {
		next := child(node, step)
		if next == nil {
			break
		}
		node = next
	}
	return Position{File: m.file, Line: max(node.Line, 1)}
}

func child(node *yaml.Node, step any) *yaml.Node {
	switch step := step.(type) {
	case string:
		for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1]
			}
		}
	case int:
		if node.Kind == yaml.SequenceNode && step < len(node.Content) {
			return node.Content[step]
		}
	}
	return nil
}

// beside returns the path of a file which the manifest names relative to itself.
func (m *manifest) beside(file string) string {
	return path.Join(path.Dir(m.file), file)
}
