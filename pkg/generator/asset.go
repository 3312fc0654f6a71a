package generator

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// asset is an object that the layers of an assembly change one after another.
type asset struct {
	bundle.Asset
	at      position.Position // of the manifest's field that adds it
	layers  []*document       // in the order of the changes
	object  apiObject         // the decoded data
	invalid bool              // the data does not decode, and the error is reported
	grants  bool              // see addition.Grants
}

// apiObject is an object of the Kubernetes API.
type apiObject interface {
	runtime.Object
	metav1.Object
}

// change replaces the data of an asset by the result of a layer, and decodes it. An error is in the
// layer, because the previous data are valid. Each asset reports its first invalid layer only.
func (l *layers) change(a *asset, layer *document, data []byte) error {
	a.Data = data
	a.layers = append(a.layers, layer)
	if a.invalid {
		return nil
	}
	decoded, _, err := l.kinds.Decode(data, nil, nil)
	object, isObject := decoded.(apiObject)
	if err == nil && !isObject {
		err = fmt.Errorf("it is a list")
	}
	a.object, a.invalid = object, err != nil
	return layer.fieldError(a.Name, err)
}

// equal returns whether another asset exists and has the same content.
func (a *asset) equal(other *asset) bool {
	return other != nil && bytes.Equal(a.Data, other.Data)
}

func (a *asset) kind() string {
	return a.object.GetObjectKind().GroupVersionKind().Kind
}

func (a *asset) isWorkload() bool {
	return a.Role == bundle.ControllerWorkload || a.Role == bundle.NodeWorkload
}

// withHeader returns the content of the generated file: a comment with the layers, and the object.
func (a *asset) withHeader(manifest string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Generated; do not edit, run `make update`. "+
		"Made with the values of %s from\n", manifest)
	listed := map[string]bool{}
	for _, layer := range a.layers {
		if !listed[layer.File] {
			fmt.Fprintf(&out, "#   %s\n", layer.File)
		}
		listed[layer.File] = true
	}
	out.Write(a.Data)
	return out.Bytes()
}

// fill replaces the build-time placeholders of a layer. A placeholder that neither the build nor
// the operator knows is an error.
func fill(file string, text []byte, values map[string]string) ([]byte, error) {
	placeholder := regexp.MustCompile(`\$\{([^}]*)\}?`)
	bare := regexp.MustCompile(`(\$+)([A-Za-z_][\w.]*)`)
	// The keys of strategic merge patches that start with a dollar sign.
	directives := []string{"patch", "retainKeys", "deleteFromPrimitiveList", "setElementOrder"}
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
		at := position.Position{File: file, Line: i + 1}
		if unknown != "" {
			return nil, position.ErrorAt(at, "unknown placeholder %s", unknown)
		}
		for _, found := range bare.FindAllStringSubmatch(line, -1) {
			if escaped := len(found[1])%2 == 0; !escaped && !slices.Contains(directives, found[2]) {
				return nil, position.ErrorAt(at, "%s is not a placeholder: write ${%s}; $$ is a plain "+
					"dollar sign", found[0], found[2])
			}
		}
	}
	return []byte(strings.Join(lines, "\n")), nil
}
