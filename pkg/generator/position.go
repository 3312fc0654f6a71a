package generator

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Position is a place in a layer, for a person to go to.
type Position struct {
	File string // relative to the assets folder
	Line int    // from 1
}

func (p Position) String() string {
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Error is something wrong in a layer, and where.
type Error struct {
	Position
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v", e.Position, e.Err)
}

// Unwrap gives errors.Is and errors.As the cause.
func (e *Error) Unwrap() error {
	return e.Err
}

// faultf makes an Error at a position.
func faultf(at Position, format string, args ...any) error {
	return &Error{Position: at, Err: fmt.Errorf(format, args...)}
}

// locateYAML turns an error of the YAML decoder, which knows the line but not the file, into one Error per fault.
func locateYAML(file string, err error) error {
	faults := []string{err.Error()}
	var mistyped *yaml.TypeError
	if errors.As(err, &mistyped) {
		faults = mistyped.Errors
	}
	pattern := regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	located := make([]error, 0, len(faults))
	for _, fault := range faults {
		at := Position{File: file, Line: 1}
		if match := pattern.FindStringSubmatch(fault); match != nil {
			at.Line = yamlLine(match[1], match[2])
			fault = match[2]
		}
		located = append(located, faultf(at, "%s", fault))
	}
	return errors.Join(located...)
}

// yamlLine returns the line of a decoder's error. Those which begin as below the decoder counts from 0, the rest from 1.
func yamlLine(digits, problem string) int {
	line, _ := strconv.Atoi(digits) // callers match digits only
	if strings.HasPrefix(problem, "did not find expected") {
		line++
	}
	return line
}
