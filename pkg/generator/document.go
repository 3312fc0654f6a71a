package generator

import (
	"encoding/json"
	"errors"
	"path"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// document is a file of the assets folder. The build-time placeholders in its text are replaced.
type document struct {
	*position.Document
}

func parse(file string, text []byte) (*document, error) {
	parsed, err := position.Parse(file, text)
	if err != nil {
		return nil, err
	}
	return &document{parsed}, nil
}

// decodeStrictly decodes the document as the Kubernetes API does. An unknown field is an error.
func (d *document) decodeStrictly(into any) error {
	return d.fieldError(path.Base(d.File), d.DecodeStrictly(into))
}

// fieldError returns the errors of a strict decoder at the fields that they are about. The object
// is the decoded asset or manifest.
func (d *document) fieldError(object string, err error) error {
	mistyped, isMistyped := errors.AsType[*json.UnmarshalTypeError](err)
	strict, isStrict := runtime.AsStrictDecodingError(err)
	switch {
	case err == nil:
		return nil
	case isStrict:
		var located []error
		for _, problem := range strict.Errors() {
			at := ""
			if unknown, ok := errors.AsType[kjson.FieldError](problem); ok {
				at = unknown.FieldPath()
			}
			located = append(located, d.Errorf(at, "%q: %w", object, problem))
		}
		return errors.Join(located...)
	case runtime.IsMissingKind(err), runtime.IsMissingVersion(err):
		return d.Errorf("kind", "%q has no apiVersion or no kind", object)
	case runtime.IsNotRegisteredError(err):
		return d.Errorf("kind", "%q: unknown apiVersion and kind: correct a misspelt kind, "+
			"or add a new one to pkg/generator/kinds.go", object)
	case isMistyped:
		return d.Errorf(mistyped.Field, "%q: field %s is a %s, not a %s",
			object, mistyped.Field, mistyped.Type, mistyped.Value)
	}
	return d.Errorf("", "decoding %q: %w", object, err)
}

// beside returns the path of a file that the document names relative to itself.
func (d *document) beside(file string) string {
	return path.Join(path.Dir(d.File), file)
}

// source is a field of a manifest, where an asset or a patch comes from.
type source struct {
	*document
	field *field.Path
}

func (d *document) source(name string, more ...string) source {
	return source{document: d, field: field.NewPath(name, more...)}
}

func (s source) index(i int) source {
	return source{document: s.document, field: s.field.Index(i)}
}

func (s source) position() position.Position {
	return s.At(s.field.String())
}

func (s source) errorf(format string, args ...any) error {
	return position.ErrorAt(s.position(), format, args...)
}
