package generator

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
)

// asset is an object in the making.
type asset struct {
	bundle.Asset
	at      Position // where a manifest says that it is to be
	origins []origin // the layers it was made from, in order
}

// origin is a layer file, with its placeholders settled.
type origin struct {
	file string
	text []byte
}

func (a *asset) madeFrom(file string, text []byte) {
	a.origins = append(a.origins, origin{file: file, text: text})
}

// locate returns the last place in the asset's layers which has the text, or where the asset was asked for.
func (a *asset) locate(text string) Position {
	word := regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(text) + `($|[^\w.-])`)
	for _, layer := range slices.Backward(a.origins) {
		for i, line := range bytes.Split(layer.text, []byte("\n")) {
			if word.Match(line) {
				return Position{File: layer.file, Line: i + 1}
			}
		}
	}
	return a.at
}

// kind returns the asset's kind, "" if it has none.
func (a *asset) kind() (string, error) {
	var object struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(a.Data, &object); err != nil {
		return "", fmt.Errorf("reading kind of %q: %w", a.Name, err)
	}
	return object.Kind, nil
}

// withProvenance returns the text of the generated file: where it comes from, and the object.
func (a *asset) withProvenance(manifest string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Generated; do not edit, run `make update`. Made with the values of %s from\n", manifest)
	named := map[string]bool{}
	for _, layer := range a.origins {
		if !named[layer.file] {
			fmt.Fprintf(&out, "#   %s\n", layer.file)
		}
		named[layer.file] = true
	}
	out.Write(a.Data)
	return out.Bytes()
}

// settle replaces the placeholders which are known at build time and refuses those which nobody knows.
func settle(file string, text []byte, values map[string]string) ([]byte, error) {
	placeholder := regexp.MustCompile(`\$\{([^}]*)\}?`)
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		var unknown string
		lines[i] = placeholder.ReplaceAllStringFunc(line, func(found string) string {
			name, closed := strings.CutSuffix(strings.TrimPrefix(found, "${"), "}")
			if value, ok := values[name]; ok && closed {
				return value
			}
			if !closed || !slices.Contains(bundle.Early(), name) && !slices.Contains(bundle.Late(), name) {
				unknown = found
			}
			return found
		})
		if unknown != "" {
			return nil, faultf(Position{File: file, Line: i + 1}, "unknown placeholder %s", unknown)
		}
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// faultIn places an error about a layer's text at the line which the error mentions, else at the file's first.
func faultIn(file string, err error) error {
	mention := regexp.MustCompile(`(?:yaml: )?line (\d+): (.*)`)
	match := mention.FindStringSubmatch(err.Error())
	if match == nil {
		return &Error{Position: Position{File: file, Line: 1}, Err: err}
	}
	// The line goes to the front: the decoder's own count may be another.
	at := Position{File: file, Line: yamlLine(match[1], match[2])}
	return faultf(at, "%s", mention.ReplaceAllString(err.Error(), "$2"))
}
