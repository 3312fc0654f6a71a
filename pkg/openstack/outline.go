package openstack

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a clouds.yaml, which on HyperShift the administrator of the hosted cluster may write.
const (
	// maxClouds is how long a clouds.yaml may be, in bytes. Decoding takes many times the memory of the text.
	maxClouds = 128 << 10
	// maxExplained and maxLines are how many bytes and lines a text may have for its broken line to be found, which
	// takes an attempt to parse for each line.
	maxExplained = 16 << 10
	maxLines     = 200
	// maxListed is how many names a message lists.
	maxListed = 10
)

// outline is the frame of a clouds.yaml: what its errors tell of the text.
type outline struct {
	// top are the keys of the text, entries those of `clouds`, and fields those of each entry.
	top, entries []key
	fields       map[string][]key
}

// key is a key of a mapping and where it is.
type key struct {
	name string
	line int
}

// decodeClouds decodes the text of a clouds.yaml. Its errors are about the text as YAML.
func decodeClouds(text []byte, into any) (outline, error) {
	if len(text) > maxClouds {
		return outline{}, fmt.Errorf("is larger than %d KiB", maxClouds>>10)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return outline{}, fmt.Errorf("is not valid YAML%s. Check the indentation and the quotation marks", brokenLine(text))
	}
	if document.IsZero() || document.Content[0].Tag == "!!null" {
		return outline{}, errors.New("is empty")
	}
	frame := outlineOf(document.Content[0])
	if err := yaml.Unmarshal(text, into); err != nil {
		return frame, fmt.Errorf("does not have the format of clouds.yaml%s", mismatchedLines(err))
	}
	return frame, nil
}

func outlineOf(root *yaml.Node) outline {
	o := outline{top: keysOf(root), fields: map[string][]key{}}
	clouds := valueOf(root, "clouds")
	o.entries = keysOf(clouds)
	for _, entry := range o.entries {
		o.fields[entry.name] = keysOf(valueOf(clouds, entry.name))
	}
	return o
}

// keysOf returns the keys of a mapping, none of another node.
func keysOf(node *yaml.Node) []key {
	var keys []key
	if node != nil && node.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(node.Content); i += 2 {
			keys = append(keys, key{node.Content[i].Value, node.Content[i].Line})
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

// withoutEntry is the error when the entry is not there.
func (o outline) withoutEntry(name string) error {
	const hint = "indent its entries below clouds"
	clouds := slices.IndexFunc(o.top, func(k key) bool { return k.name == "clouds" })
	switch {
	case clouds < 0:
		return fmt.Errorf("has no key clouds at its top%s", listed("the keys there are", names(o.top)))
	case len(o.entries) == 0 && len(o.top) > 1:
		return fmt.Errorf("has nothing in clouds (line %d): %s%s", o.top[clouds].line, hint, listed("beside it are", names(slices.Delete(slices.Clone(o.top), clouds, clouds+1))))
	case len(o.entries) == 0:
		return fmt.Errorf("has nothing in clouds (line %d): %s", o.top[clouds].line, hint)
	}
	return fmt.Errorf("has no entry clouds.%s%s", printable(name), listed("its entries are", names(o.entries)))
}

// withoutAuth is the error when an entry has no auth.
func (o outline) withoutAuth(name string) error {
	line := ""
	for _, entry := range o.entries {
		if entry.name == name {
			line = fmt.Sprintf(" (line %d)", entry.line)
		}
	}
	for _, place := range []struct {
		path string
		keys []key
	}{{"clouds.auth", o.entries}, {"auth", o.top}} {
		for _, k := range place.keys {
			if k.name == "auth" {
				return fmt.Errorf("has no clouds.%s.auth%s: indent auth (line %d) below clouds.%s", printable(name), line, k.line, printable(name))
			}
		}
	}
	return fmt.Errorf("has no clouds.%s.auth%s%s", printable(name), line, listed("the keys there are", names(o.fields[name])))
}

func names(keys []key) []string {
	ret := make([]string, 0, len(keys))
	for _, k := range keys {
		ret = append(ret, k.name)
	}
	return ret
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// identifier is what a message may repeat of a text that holds secrets: names as people give them to keys and entries.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,62}$`)

// printable is a name for messages.
func printable(name string) string {
	if identifier.MatchString(name) {
		return name
	}
	return "(a name that is not printed)"
}

// listed continues a message with names, as many as it may have.
func listed(words string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	shown := make([]string, 0, maxListed)
	for _, name := range names[:min(len(names), maxListed)] {
		shown = append(shown, printable(name))
	}
	more := ""
	if len(names) > maxListed {
		more = fmt.Sprintf(" and %d more", len(names)-maxListed)
	}
	return fmt.Sprintf("; %s %s%s", words, strings.Join(shown, ", "), more)
}

// brokenLine finds the line at which a text stops being YAML: up to the line before it the text is. The parser's own errors name
// the line at which the surrounding mapping begins, which is most often the first.
func brokenLine(text []byte) string {
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

// mismatchedLines keeps the line numbers of an error about types and drops the rest, which quotes the text.
func mismatchedLines(err error) string {
	var mismatch *yaml.TypeError
	if !errors.As(err, &mismatch) {
		return ""
	}
	var lines []string
	for _, fault := range mismatch.Errors {
		if m := mismatchedLine.FindStringSubmatch(fault); m != nil && !slices.Contains(lines, m[1]) && len(lines) < maxListed {
			lines = append(lines, m[1])
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return " (line " + strings.Join(lines, ", ") + ")"
}
