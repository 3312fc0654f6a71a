package position

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Position is a line of a text.
type Position struct {
	File string
	Line int // from 1
}

func (p Position) String() string {
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Error is a mistake in a text, with its position.
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

// ErrorAt returns an Error with a formatted cause.
func ErrorAt(at Position, format string, args ...any) error {
	return &Error{Position: at, Err: fmt.Errorf(format, args...)}
}

// syntaxError returns one Error for each problem that the YAML decoder reports.
func (d *Document) syntaxError(err error) error {
	if err == nil {
		return nil
	}
	problems := []string{err.Error()}
	if mistyped, ok := errors.AsType[*yaml.TypeError](err); ok {
		problems = mistyped.Errors
	}
	quoted := regexp.MustCompile("(?s) `.*`") // may be secret
	pattern := regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	located := make([]error, 0, len(problems))
	for _, problem := range problems {
		problem = quoted.ReplaceAllString(problem, "")
		at := Position{File: d.File, Line: 1}
		if match := pattern.FindStringSubmatch(problem); match != nil {
			at.Line, _ = strconv.Atoi(match[1]) // the pattern matches digits only
			problem = match[2]
		}
		if strings.HasPrefix(problem, "did not find expected") {
			at.Line++ // the decoder counts these lines from 0
		}
		located = append(located, ErrorAt(at, "%s", problem))
	}
	return errors.Join(located...)
}

// ValidationError returns errors of a validation at their fields. A missing one is at its parent.
func (d *Document) ValidationError(list field.ErrorList) error {
	var located []error
	for _, err := range list {
		path := err.Field
		if err.Type == field.ErrorTypeRequired {
			path = path[:max(strings.LastIndexAny(path, ".["), 0)]
		}
		located = append(located, d.Errorf(path, "%w", err))
	}
	return errors.Join(located...)
}

// Sorted returns joined errors, sorted by position and without duplicates.
func Sorted(err error) []error {
	var all []error
	flatten(err, &all)
	slices.SortFunc(all, compareErrors)
	same := func(a, b error) bool { return a.Error() == b.Error() }
	return slices.CompactFunc(all, same)
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

// Located returns the line of an error about a text, and what is wrong there.
func Located(err error) (line int, problem string) {
	if located, ok := errors.AsType[*Error](err); ok {
		return max(1, located.Line), located.Err.Error()
	}
	return 1, err.Error()
}
