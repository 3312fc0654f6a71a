package clouds

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// Limits of a clouds.yaml. On HyperShift the administrator of the guest cluster may write it.
const (
	// maxClouds is the maximum size of a clouds.yaml, in bytes.
	maxClouds = 128 << 10
	// maxListed is the number of names that a message lists.
	maxListed = 10
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
	return k.value != nil && k.value.Kind == yaml.ScalarNode &&
		(k.value.Value == "" || k.value.ShortTag() == "!!null")
}

// String returns the name and the line, for messages.
func (k key) String() string {
	if k.line == 0 {
		return Printable(k.name)
	}
	return fmt.Sprintf("%s (line %d)", Printable(k.name), k.line)
}

// decode returns the entries of a clouds.yaml, its tree, and what is wrong with the types of its
// values. This and the text of an error follow the name of its source, and contain no values.
func decode(text []byte) (file clientconfig.Clouds, tree *yaml.Node, faults string, err error) {
	root, err := position.Tree(text, maxClouds)
	_, tooLarge := errors.AsType[position.LimitError](err)
	switch {
	case tooLarge:
		return file, nil, "", err
	case err != nil:
		known := slices.Concat(fields[clientconfig.Clouds](), fields[clientconfig.Cloud](),
			fields[clientconfig.AuthInfo]())
		return file, nil, "", errors.New(cmp.Or(otherText(text),
			position.FirstInvalid(text, known).String()))
	case root.IsZero() || root.Content[0].Tag == "!!null" && root.Content[0].Value == "":
		if second := position.Second(text); second > 0 {
			return file, nil, "", fmt.Errorf("begins with an empty YAML document, and only the first "+
				"document is read: remove the line --- above line %d", second)
		}
		return file, nil, "", errors.New(cmp.Or(otherText(text), "is empty: "+expected))
	case position.Resolved(root.Content[0]).Kind != yaml.MappingNode:
		return file, nil, "", errors.New(cmp.Or(otherText(text), fmt.Sprintf("is %s (line %d), not a "+
			"clouds.yaml: %s", position.Shape(root.Content[0]), root.Content[0].Line, expected)))
	}
	var found format
	found.check(root.Content[0], reflect.TypeFor[clientconfig.Clouds](), "")
	if found.repeated == "" && root.Decode(&file) == nil {
		return file, root.Content[0], "", nil
	}
	faults = cmp.Or(found.template, "does not have the format of clouds.yaml"+found.text())
	if found.repeated != "" || found.template != "" || len(found.faults) == 0 {
		return file, nil, "", errors.New(faults)
	}
	return file, root.Content[0], faults, nil // the decoder has filled what has the right type
}

// mapping returns the keys of a mapping, with merged mappings at the end; none for other nodes.
func mapping(node *yaml.Node) (keys []key) {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	var merged []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], position.Resolved(node.Content[i+1])
		switch {
		case name.ShortTag() != "!!merge":
			keys = append(keys, key{position.Resolved(name).Value, name.Line, value})
		case value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		default:
			merged = append(merged, value)
		}
	}
	for _, node := range merged {
		keys = append(keys, mapping(position.Resolved(node))...)
	}
	return keys
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

// identifier matches the names of keys and entries that messages may repeat. Others may be secret.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// Printable returns the name for messages, or a placeholder if the text may be secret. Characters
// that look like others are replaced by their code points.
func Printable(name string) string {
	const limit, few = 63, 10
	var shown, plain strings.Builder
	for _, char := range name {
		if char < utf8.RuneSelf {
			plain.WriteRune(char)
			shown.WriteRune(char)
		} else {
			fmt.Fprintf(&shown, "<%U>", char)
		}
	}
	strange := utf8.RuneCountInString(name) - plain.Len()
	if len(name) <= limit && strange <= few && identifier.MatchString(plain.String()) {
		return shown.String()
	}
	return "(a name that is not printed)"
}

// fields returns the names of the keys of T.
func fields[T any]() []string {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		names = append(names, name)
	}
	return names
}
