package openstack

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// outline contains the names and lines of keys in a clouds.yaml that error messages may show.
type outline struct {
	// top are the keys of the text, entries the keys of `clouds`, and fields the keys of each entry.
	top, entries []key
	fields       map[string][]key
}

// decodeClouds decodes a clouds.yaml. It returns an error if the text is not YAML or a field has
// the wrong type.
func decodeClouds(text []byte, into any) (outline, error) {
	if len(text) > maxClouds {
		return outline{}, fmt.Errorf("is larger than %d KiB", maxClouds>>10)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return outline{}, fmt.Errorf("is not valid YAML%s. Check the indentation and the quotation marks",
			firstInvalidLine(text))
	}
	if document.IsZero() || document.Content[0].Tag == "!!null" {
		return outline{}, errors.New("is empty")
	}
	if nodes(document.Content[0], maxNodes, 0) > maxNodes {
		return outline{}, errors.New("has too many entries or aliases")
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		return outline{}, fmt.Errorf("does not have the format of clouds.yaml%s", mismatchedLines(err))
	}
	return outlineOf(document.Content[0]), nil
}

func outlineOf(root *yaml.Node) outline {
	o := outline{top: keysOf(root), fields: map[string][]key{}}
	clouds := valueOf(root, "clouds")
	o.entries = keysOf(clouds)
	for i, entry := range o.entries { // not by name: an untrusted text may contain many
		o.fields[entry.name] = keysOf(clouds.Content[2*i+1])
	}
	return o
}

// keysOf returns the keys of a mapping, and none for other nodes.
func keysOf(node *yaml.Node) []key {
	var keys []key
	if node != nil && node.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(node.Content); i += 2 {
			keys = append(keys, key{name: node.Content[i].Value, line: node.Content[i].Line})
		}
	}
	return keys
}

func valueOf(mapping *yaml.Node, name string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// missingEntry returns the error for a text without the entry.
func (o outline) missingEntry(name string) error {
	clouds := slices.IndexFunc(o.top, func(k key) bool { return k.name == "clouds" })
	switch {
	case clouds < 0:
		return fmt.Errorf("has no top-level key clouds%s", listed("its top-level keys are", names(o.top)))
	case len(o.entries) == 0:
		others := slices.Delete(slices.Clone(o.top), clouds, clouds+1)
		return fmt.Errorf("has no entries in clouds (line %d): indent the entries below clouds%s",
			o.top[clouds].line, listed("other keys are", names(others)))
	}
	return fmt.Errorf("has no entry clouds.%s%s",
		printableName(name), listed("its entries are", names(o.entries)))
}

// missingAuth returns the error for an entry without auth.
func (o outline) missingAuth(name string) error {
	path, line := "clouds."+printableName(name), ""
	for _, entry := range o.entries {
		if entry.name == name {
			line = fmt.Sprintf(" (line %d)", entry.line)
		}
	}
	for _, k := range slices.Concat(o.entries, o.top) {
		if k.name == "auth" {
			return fmt.Errorf("has no %s.auth%s: indent auth (line %d) below %s", path, line, k.line, path)
		}
	}
	return fmt.Errorf("has no %s.auth%s%s", path, line,
		listed("the keys there are", names(o.fields[name])))
}

func names(keys []key) []string {
	ret := make([]string, 0, len(keys))
	for _, k := range keys {
		ret = append(ret, k.name)
	}
	return ret
}

// listed returns the continuation of a message with at most maxListed names.
func listed(introduction string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	shown := make([]string, 0, maxListed)
	for _, name := range names[:min(len(names), maxListed)] {
		shown = append(shown, printableName(name))
	}
	more := ""
	if len(names) > maxListed {
		more = fmt.Sprintf(" and %d more", len(names)-maxListed)
	}
	return fmt.Sprintf("; %s %s%s", introduction, strings.Join(shown, ", "), more)
}
