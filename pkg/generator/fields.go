package generator

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// line returns the position of a field, given by its path in the object ("spec.ports[0].name"), in the layer. A layer is
// an object or a part of it, a merge patch or a JSON 6902 patch; the key whose own path ends most like the field's is meant.
func (o origin) line(field string) Position {
	at := Position{File: o.file, Line: 1}
	var root yaml.Node
	if err := yaml.Unmarshal(o.text, &root); err != nil {
		return at // reported where the layer is read
	}
	want := strings.Split(regexp.MustCompile(`\[\d+\]`).ReplaceAllString(field, ""), ".")
	best := 0
	eachKey(&root, nil, func(path []string, line int) {
		if score := commonEnd(path, want); score > best {
			best, at.Line = score, line
		}
	})
	return at
}

// eachKey visits the keys below a node with their paths, in which lists do not count.
func eachKey(node *yaml.Node, above []string, visit func(path []string, line int)) {
	if node.Kind != yaml.MappingNode {
		for _, below := range node.Content {
			eachKey(below, above, visit)
		}
		return
	}
	if pointer := child(node, "path"); pointer != nil && child(node, "op") != nil {
		above = append(slices.Clone(above), pointerSteps(pointer.Value)...)
		visit(above, pointer.Line)
		if value := child(node, "value"); value != nil {
			eachKey(value, above, visit)
		}
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		path := append(slices.Clone(above), node.Content[i].Value)
		visit(path, node.Content[i].Line)
		eachKey(node.Content[i+1], path, visit)
	}
}

// pointerSteps returns the keys in a JSON pointer.
func pointerSteps(pointer string) []string {
	isIndex := regexp.MustCompile(`^(\d+|-|)$`)
	return slices.DeleteFunc(strings.Split(pointer, "/"), isIndex.MatchString)
}

// commonEnd counts the last elements that two paths share.
func commonEnd(a, b []string) int {
	count := 0
	for count < min(len(a), len(b)) && a[len(a)-1-count] == b[len(b)-1-count] {
		count++
	}
	return count
}
