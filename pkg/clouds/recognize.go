package clouds

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// expected says what a clouds.yaml consists of.
const expected = "it must begin with clouds, below it the name of an entry such as openstack, " +
	"and below that auth, each indented"

// otherText returns what a text is that is no clouds.yaml, with what to do, "" if it is unknown.
// The structure of its lines decides. The result contains no values.
func otherText(text []byte) string {
	var first string
	var number, sections, settings int
	variable := regexp.MustCompile(
		`^(?:export\s+|set(?:env|x)?\s+"?|\$[Ee]nv:)?OS_[A-Z0-9_]+\s*(?:=|\s|$)`)
	section := regexp.MustCompile(`^\[[\w .-]+(?:"[^"]*")?\]$`)
	setting := regexp.MustCompile(`^[\w.-]+\s*=\s*[^=\s]`)
	for line := range bytes.Lines(text) {
		content := strings.TrimSpace(string(line))
		number++
		switch {
		case content == "" || content[0] == '#' || content[0] == ';':
			continue
		case variable.MatchString(content):
			return fmt.Sprintf("is an openrc file (line %d): use the clouds.yaml that the dashboard "+
				"offers beside it", number)
		case position.IsTemplate(content):
			return templateAt(number)
		case section.MatchString(content):
			sections++
		case setting.MatchString(content):
			settings++
		}
		if first == "" {
			first = content
		}
	}
	switch {
	case sections > 0 && settings > 0:
		return "is a cloud.conf, or another file with [sections] and name = value, not a clouds.yaml: " +
			expected
	case settings > 0:
		return "contains settings as name = value, and a clouds.yaml has name: value; " + expected
	}
	return otherStart(first, text)
}

func templateAt(line int) string {
	return fmt.Sprintf("contains a template that is not filled in (line %d): render it first, and "+
		"write its result. A value that begins with { needs quotation marks", line)
}

// pemHeader matches the first line of a text in PEM.
var pemHeader = regexp.MustCompile(`^-----BEGIN ([A-Z0-9 ]{1,40})-----`)

// otherStart returns what a text is by its first line.
func otherStart(first string, text []byte) string {
	header := pemHeader.FindStringSubmatch(first)
	switch {
	case strings.HasPrefix(first, "$ANSIBLE_VAULT;"):
		return "is encrypted: decrypt it first, with ansible-vault"
	case header != nil && strings.Contains(header[1], "CERTIFICATE"):
		return "is a certificate: write it into key " + CAKey + ", and the clouds.yaml into this one"
	case header != nil && (strings.Contains(header[1], "ENCRYPTED") || header[1] == "PGP MESSAGE"):
		return "is encrypted: decrypt it first"
	case header != nil:
		return "contains " + header[1] + " in PEM, not a clouds.yaml: " + expected
	case strings.HasPrefix(first, "<"):
		return "is a web page or XML, not a clouds.yaml. Log in to the dashboard, and download it again"
	case strings.HasPrefix(first, "+--"), strings.HasPrefix(first, "| "):
		return "is a table that the command openstack prints, not a clouds.yaml: " + expected
	case isBase64(text):
		return "is encoded as base64 once too often: write the decoded text, or use stringData, or " +
			"kubectl create secret --from-file"
	}
	return ""
}

// isBase64 returns true for a text whose base64 decodes to another text.
func isBase64(text []byte) bool {
	const shortest = 16
	plain := decoded(string(text))
	return len(plain) >= shortest && utf8.ValidString(plain) && strings.ContainsAny(plain, ":\n")
}

// otherTree returns what a tree without a top-level key clouds is, with what to do.
func otherTree(root *yaml.Node) string {
	top := mapping(root)
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return find(top, name).value == nil })
	}
	for _, k := range top {
		switch {
		case strings.HasPrefix(k.name, "OS_"):
			return fmt.Sprintf("is an openrc file (%s): use the clouds.yaml that the dashboard offers", k)
		case position.Similar([]string{"clouds"}, k.name) != "":
			return fmt.Sprintf("has no top-level key clouds: rename %s to clouds", k)
		case k.name == "auth":
			return fmt.Sprintf("has %s at the top: %s", k, expected)
		case find(mapping(k.value), "auth").value != nil:
			return fmt.Sprintf("has no top-level key clouds: write clouds: above %s, and indent what "+
				"follows", k)
		case slices.Contains(fields[clientconfig.AuthInfo](), k.name):
			return fmt.Sprintf("has %s at the top: %s", k, expected)
		}
	}
	switch {
	case has("apiVersion", "kind"):
		return "is a manifest of kind " + Printable(find(top, "kind").value.Value) +
			": write only the clouds.yaml that it contains"
	case has("public-clouds"):
		return "is a clouds-public.yaml: " + expected
	case has("id", "secret"):
		return "describes an application credential: write id as application_credential_id and secret " +
			"as application_credential_secret; " + expected
	}
	return cmp.Or(inside(root, ""), "has no top-level key clouds: "+expected+
		others("its top-level keys are", top))
}

// inside returns where the content of a clouds.yaml or of a cloud.conf is below a node, as in the
// values of a Helm chart. It does not follow aliases, with which a text would be searched often.
func inside(node *yaml.Node, path string) string {
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

// insideText returns what a text of several lines contains.
func insideText(value *yaml.Node, place string) string {
	if value.Kind == yaml.ScalarNode && isBase64([]byte(value.Value)) {
		return "contains base64 as " + place + ": write only the text that it encodes"
	}
	if value.Kind != yaml.ScalarNode || !strings.Contains(value.Value, "\n") {
		return ""
	}
	content, err := position.Tree([]byte(value.Value), maxClouds)
	if err == nil && !content.IsZero() && find(mapping(content.Content[0]), "clouds").line > 0 {
		return "contains a clouds.yaml as the text of " + place + ": write only this text"
	}
	if other := otherText([]byte(value.Value)); other != "" {
		return "is no clouds.yaml: " + place + " " + other
	}
	return ""
}
