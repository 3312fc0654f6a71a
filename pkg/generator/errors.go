package generator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Position is a line of a layer.
type Position struct {
	File string // relative to the assets folder
	Line int    // from 1
}

func (p Position) String() string {
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Error is a mistake in a layer, with its position.
type Error struct {
	Position
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v", e.Position, e.Err)
}

// Unwrap returns the cause for errors.Is and errors.As.
func (e *Error) Unwrap() error {
	return e.Err
}

func errorAt(at Position, format string, args ...any) error {
	return &Error{Position: at, Err: fmt.Errorf(format, args...)}
}

// syntaxError returns one Error for each problem that the YAML decoder reports.
func (d *document) syntaxError(err error) error {
	if err == nil {
		return nil
	}
	problems := []string{err.Error()}
	if mistyped, ok := errors.AsType[*yaml.TypeError](err); ok {
		problems = mistyped.Errors
	}
	pattern := regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	located := make([]error, 0, len(problems))
	for _, problem := range problems {
		at := Position{File: d.file, Line: 1}
		if match := pattern.FindStringSubmatch(problem); match != nil {
			at.Line, _ = strconv.Atoi(match[1]) // the pattern matches digits only
			problem = match[2]
		}
		if strings.HasPrefix(problem, "did not find expected") {
			at.Line++ // the decoder counts these lines from 0
		}
		located = append(located, errorAt(at, "%s", problem))
	}
	return errors.Join(located...)
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
			path := ""
			if unknown, ok := errors.AsType[kjson.FieldError](problem); ok {
				path = unknown.FieldPath()
			}
			located = append(located, d.errorf(path, "%q: %w", object, problem))
		}
		return errors.Join(located...)
	case runtime.IsMissingKind(err), runtime.IsMissingVersion(err):
		return d.errorf("kind", "%q has no apiVersion or no kind", object)
	case runtime.IsNotRegisteredError(err):
		return d.errorf("kind", "%q: unknown apiVersion and kind: correct a misspelt kind, "+
			"or add a new one to pkg/generator/kinds.go", object)
	case isMistyped:
		return d.errorf(mistyped.Field, "%q: field %s is a %s, not a %s",
			object, mistyped.Field, mistyped.Type, mistyped.Value)
	}
	return d.errorf("", "decoding %q: %w", object, err)
}

// validationError returns the errors of a validation at their fields. A missing field has the line
// of its parent.
func (d *document) validationError(list field.ErrorList) error {
	var located []error
	for _, err := range list {
		path := err.Field
		if err.Type == field.ErrorTypeRequired {
			path = path[:max(strings.LastIndexAny(path, ".["), 0)]
		}
		located = append(located, d.errorf(path, "%w", err))
	}
	return errors.Join(located...)
}

// sorted flattens joined errors, sorts them by position and removes duplicates: two flavours report
// an error in a layer that they share.
func sorted(err error) error {
	var all []error
	flatten(err, &all)
	slices.SortFunc(all, compareErrors)
	same := func(a, b error) bool { return a.Error() == b.Error() }
	return errors.Join(slices.CompactFunc(all, same)...)
}

func flatten(err error, all *[]error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			flatten(err, all)
		}
	} else if err != nil {
		*all = append(*all, err)
	}
}

func compareErrors(a, b error) int {
	left, ok := errors.AsType[*Error](a)
	right, both := errors.AsType[*Error](b)
	if ok && both {
		return cmp.Or(cmp.Compare(left.File, right.File), cmp.Compare(left.Line, right.Line),
			cmp.Compare(a.Error(), b.Error()))
	}
	return cmp.Compare(a.Error(), b.Error())
}
