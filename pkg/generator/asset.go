package generator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
)

// asset is an object in the making.
type asset struct {
	bundle.Asset
	at      Position       // where a manifest asks for it
	origins []origin       // the layers it was made from, in order
	object  runtime.Object // what the data decodes to
	faulty  bool           // the data does not decode, which was reported
}

// origin is a layer file, with its placeholders settled.
type origin struct {
	file string
	text []byte
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

// kind returns the asset's kind.
func (a *asset) kind() string {
	return a.object.GetObjectKind().GroupVersionKind().Kind
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
	bare := regexp.MustCompile(`(\$+)([A-Za-z_][\w.]*)`)
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
		at := Position{File: file, Line: i + 1}
		if unknown != "" {
			return nil, faultf(at, "unknown placeholder %s", unknown)
		}
		for _, found := range bare.FindAllStringSubmatch(line, -1) {
			if escaped := len(found[1])%2 == 0; !escaped && !slices.Contains(mergeDirectives(), found[2]) {
				return nil, faultf(at, "%s is no placeholder: write ${%s}; $$ is a plain dollar sign", found[0], found[2])
			}
		}
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// mergeDirectives are keys of strategic merge patches that start with a dollar sign.
func mergeDirectives() []string {
	return []string{"patch", "retainKeys", "deleteFromPrimitiveList", "setElementOrder"}
}

// oneDocument insists that a text is one YAML document: of more, all but the first would be dropped without a word.
func oneDocument(file string, text []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for i := 0; ; i++ {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return locateYAML(file, err)
		case i > 0:
			return faultf(Position{File: file, Line: document.Line}, "a second YAML document: each file holds one")
		}
		var content any // finds keys that are there twice
		if err := document.Decode(&content); err != nil {
			return locateYAML(file, err)
		}
	}
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
