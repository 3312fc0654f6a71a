package clouds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// expected says what a clouds.yaml consists of.
const expected = "it must begin with clouds, below it the name of an entry such as openstack, " +
	"and below that auth, each indented"

// converts says how a file of another format becomes a clouds.yaml.
const converts = "kubectl openstack-csi check --values -f cloud.conf prints the clouds.yaml of " +
	"the same login"

// instead says what to do about a Secret without the key for a clouds.yaml.
func (c Content) instead(keys []key) string {
	for _, k := range keys {
		switch other := position.Recognize(c.Data[k.name], position.Secret); {
		case other.What == position.CloudsYAML:
			return "Rename " + Printable(k.name) + " to " + Key
		case strings.HasPrefix(other.What, position.Settings):
			return "With a copy of key " + Printable(k.name) + ", " + converts + ": write that into this key"
		}
	}
	return "Write a clouds.yaml into this key"
}

// otherText returns what a text is that is no clouds.yaml, with what to do, "" if it is unknown.
func otherText(text []byte) string {
	other := position.Recognize(text, position.Secret)
	switch {
	case slices.Contains([]string{"", position.CloudsYAML, position.OtherValues}, other.What):
		return ""
	case strings.HasPrefix(other.What, position.Settings):
		other.Advice = converts
	case other.What == position.OpenRC:
		other.Advice = "use the clouds.yaml that the dashboard offers beside it"
	case other.What == position.Certificate:
		other.Advice = "write it into key " + CAKey + ", and the clouds.yaml into this one"
	}
	return other.Instead("a clouds.yaml", expected)
}

// otherTree returns what a tree without a top-level key clouds is, with what to do.
func otherTree(root *yaml.Node, text []byte) string {
	top := mapping(root)
	if other := cmp.Or(inside(root, ""), otherText(text)); other != "" {
		return other
	}
	for _, k := range top {
		switch {
		case strings.HasPrefix(k.name, "OS_"):
			return fmt.Sprintf("is an openrc file (%s): use the clouds.yaml that the dashboard offers", k)
		case position.Similar([]string{"clouds"}, k.name) != "":
			return fmt.Sprintf("has no top-level key clouds: rename %s to clouds", k)
		case find(mapping(k.value), "auth").value != nil:
			return fmt.Sprintf("has no top-level key clouds: write clouds: above %s, and indent what "+
				"follows", k)
		case k.name == "auth", slices.Contains(fields[clientconfig.AuthInfo](), k.name):
			return fmt.Sprintf("has %s at the top: %s", k, expected)
		}
	}
	return "has no top-level key clouds: " + expected + others("its top-level keys are", top)
}

// inside returns where the content of a clouds.yaml or of a cloud.conf is below a node, as in the
// values of a Helm chart. It does not follow aliases, with which a text would be searched often.
func inside(node *yaml.Node, path string) string {
	for _, item := range node.Content {
		if found := inside(item, path); found != "" && node.Kind == yaml.SequenceNode {
			return found
		}
	}
	if node.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		at := path + Printable(name.Value)
		place := fmt.Sprintf("%s (line %d)", at, name.Line)
		if name.Value == "clouds" && value.Kind == yaml.MappingNode {
			return "has clouds at " + place + ", as the values of a Helm chart do: write clouds and " +
				"what is below it, and nothing around it"
		}
		if found := cmp.Or(insideText(value, place), inside(value, at+".")); found != "" {
			return found
		}
	}
	return ""
}

// insideText returns what a text of several lines or in base64 contains.
func insideText(value *yaml.Node, place string) string {
	if value.Kind != yaml.ScalarNode {
		return ""
	}
	switch other := position.Recognize([]byte(value.Value), position.Secret); {
	case other.What == "base64 of "+position.CloudsYAML:
		return "contains a clouds.yaml in base64 as " + place + ": write only the text that it encodes"
	case !strings.Contains(value.Value, "\n") || other.What == "":
	case other.What == position.CloudsYAML:
		return "contains a clouds.yaml as the text of " + place + ": write only this text"
	default:
		return "is no clouds.yaml: " + place + " is " + other.What
	}
	return ""
}
